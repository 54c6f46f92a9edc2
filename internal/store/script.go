package store

import (
	"crypto/sha1"
	"embed"
	"encoding/hex"
	"sync"
)

//go:generate go run ./luagen

// scripts are put together from the sources in lua by go generate.
//
//go:embed lua/gen
var scripts embed.FS

// script is a Lua script. Each of its forms is read when it first runs.
type script struct {
	name                      string
	plain, inCluster, sharded func() *form
}

// form is a script's text and the hash that Redis knows it by.
type form struct{ text, hash string }

// on is the script as it runs in that store.
func (s *script) on(of *Store) *form {
	switch {
	case !of.isInCluster():
		return s.plain()
	case of.Sharded():
		return s.sharded()
	}
	return s.inCluster()
}

// newScript names the script lua/name.lua.
func newScript(name string) *script {
	return &script{
		name:      name,
		plain:     sync.OnceValue(func() *form { return readForm(name) }),
		inCluster: sync.OnceValue(func() *form { return readForm(name+".cluster", name) }),
		sharded:   sync.OnceValue(func() *form { return readForm(name+".sharded", name+".cluster", name) }),
	}
}

// readForm reads the first of these files that there is: a form that does not differ from the next one has none.
func readForm(names ...string) *form {
	text, err := scripts.ReadFile("lua/gen/" + names[0] + ".lua")
	if err != nil {
		return readForm(names[1:]...) // the last one always exists
	}
	hash := sha1.Sum(text)
	return &form{string(text), hex.EncodeToString(hash[:])}
}
