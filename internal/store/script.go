package store

import (
	"context"
	"crypto/sha1"
	"embed"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/gomodule/redigo/redis"
)

//go:generate go run ./luagen

// scripts contains the scripts that go generate makes of the sources in lua.
//
//go:embed lua/gen
var scripts embed.FS

// script is a Lua script. Each of its forms is made when it first runs.
type script struct {
	name                      string
	plain, inCluster, sharded func() *form
}

// form is a script's text and its hash.
type form struct{ text, hash string }

// on returns the form that runs in the store.
func (s *script) on(of *Store) *form {
	switch {
	case !of.inCluster:
		return s.plain()
	case of.Sharded():
		return s.sharded()
	}
	return s.inCluster()
}

// What a script's forms for a cluster have instead of the plain form's texts: they check whether keys have moved to another node, and where
// channels belong to slots they publish there, since PUBLISH would go to all nodes.
var (
	checking = []string{"local IN_CLUSTER = false", "local IN_CLUSTER = true"}
	sharding = []string{"'PUBLISH'", "'SPUBLISH'"}
)

// newScript returns the script lua/name.lua.
func newScript(name string) *script {
	with := func(changes ...string) func() *form {
		return sync.OnceValue(func() *form { return readForm(name, changes) })
	}
	return &script{name: name, plain: with(), inCluster: with(checking...), sharded: with(slices.Concat(checking, sharding)...)}
}

// readForm reads a script with changes: old text, new text, ….
func readForm(name string, changes []string) *form {
	file, err := scripts.ReadFile("lua/gen/" + name + ".lua")
	if err != nil {
		panic(err) // go generate has not been run for it
	}
	text := strings.NewReplacer(changes...).Replace(string(file))
	hash := sha1.Sum([]byte(text))
	return &form{text, hex.EncodeToString(hash[:])}
}

// Call is one run of a script, or a command, and the parser of its reply. Do runs it alone. In a pipeline, Send sends it and Wait waits for the reply;
// On does both. A Call is used once, unless a cluster could not run it: see OfOneSlot.
type Call[T any] struct {
	run
	read func(reply any) (T, error)
}

// run is the state of a Call in a Pipeline.
type run struct {
	store    *Store
	script   *script // nil for a command
	name     string  // of the script or the command
	form     *form   // the form of the script that was sent
	args     []any   // the first names the script
	pipeline *Pipeline
	reply    any
	err      error
	done     bool
	behind   bool // repeated after the call with the script's text
	inText   bool // sent with the script's text
}

// newCall returns a call of the script with the result of arguments. read fails for a reply that the script can't have returned.
func newCall[T any](s *Store, script *script, args []any, read func(reply any) (T, error)) *Call[T] {
	return &Call[T]{run{store: s, script: script, name: script.name, args: args}, read}
}

// newCommand returns a call of a single command with at least one argument.
func newCommand[T any](s *Store, name string, read func(reply any) (T, error), args ...any) *Call[T] {
	return &Call[T]{run{store: s, name: name, args: args}, read}
}

// arguments returns the first arguments of a script: the keys, after a free place for the script's name. It has room for more.
func arguments(room int, keys ...string) []any {
	args := make([]any, 2, 2+len(keys)+room)
	args[1] = len(keys)
	for _, key := range keys {
		args = append(args, key)
	}
	return args
}

func appendAll[T any](args []any, more []T) []any {
	for _, arg := range more {
		args = append(args, arg)
	}
	return args
}

// scan reads the first values of a list, and returns the others.
func scan(reply any, first ...any) (rest []any, err error) {
	list, err := redis.Values(reply, nil)
	if err != nil {
		return nil, err
	}
	return redis.Scan(list, first...)
}

// unread ignores a reply without a meaning.
func unread(any) (struct{}, error) { return struct{}{}, nil }

// Do makes the call on a connection of the pool, and again while a cluster can't run it.
func (c *Call[T]) Do(ctx context.Context) (answer T, err error) {
	err = c.store.UntilServed(ctx, func() error {
		p, err := c.store.Pipeline(ctx)
		if err != nil {
			return err
		}
		defer p.Close()
		answer, err = c.On(ctx, p)
		return err
	})
	return answer, err
}

// On makes the call in the pipeline.
func (c *Call[T]) On(ctx context.Context, p *Pipeline) (T, error) {
	return c.Send(p).Wait(ctx)
}

// Send sends the call, and returns it.
func (c *Call[T]) Send(p *Pipeline) *Call[T] {
	c.pipeline, c.reply, c.err, c.done, c.behind = p, nil, nil, false, false
	if c.script != nil {
		c.form = c.script.on(c.store)
	}
	p.write(&c.run, c.inText)
	return c
}

// InText sends the script's text with the call. Otherwise a later call could overtake it if Redis does not know the script, and another
// client loads it in between.
func (c *Call[T]) InText() *Call[T] {
	c.inText = true
	return c
}

// Wait waits for the reply. Without a call, for nil, it returns zero. A redis.Error means that Redis refused the call before any change.
// After any other error, a connection error, the effect is unknown.
func (c *Call[T]) Wait(ctx context.Context) (T, error) {
	var none T
	if c == nil {
		return none, nil
	}
	reply, err := c.pipeline.receive(ctx, &c.run)
	if err != nil {
		return none, err
	}
	result, err := c.read(reply)
	if err != nil {
		return none, errReply(c.name, reply)
	}
	return result, nil
}

// errUnreadable is the error of functions that read a reply.
var errUnreadable = errors.New("unreadable")

// toldErrors are the errors that scripts return as numbers.
var toldErrors = [...]error{
	toldExists: ErrExists, toldReplaced: errReplaced, toldKept: errKept, toldFollows: errFollows, toldReused: ErrReused,
	toldLater: ErrLater, toldNotFound: ErrNotFound, toldLeaseLost: ErrLeaseLost, toldExhausted: ErrExhausted,
	toldIsReserved: ErrReserved, toldWasReserved: errWasReserved, toldWasReady: errWasReady, toldWasDead: errWasDead,
}

// errorsAt reads {position, why, position, why, …} for n jobs: why is an error of Redis as a text, the number of a known
// error, or a list with the topic of an OtherTopic.
func errorsAt(reply any, n int) ([]error, error) {
	errs := make([]error, n)
	if reply == nil { // no errors: Redis takes longer to reply with an empty list
		return errs, nil
	}
	list, err := redis.Values(reply, nil)
	if err != nil {
		return nil, err
	}
	for ; len(list) >= 2; list = list[2:] {
		place, _ := list[0].(int64)
		if place < 1 || int(place) > n {
			return nil, errUnreadable
		}
		switch why := list[1].(type) {
		case []byte:
			errs[place-1] = redis.Error(why)
		case int64:
			if why < 0 || int(why) >= len(toldErrors) || toldErrors[why] == nil {
				return nil, errUnreadable
			}
			errs[place-1] = toldErrors[why]
		case []any:
			var other OtherTopic
			if _, err := redis.Scan(why, &other.Job); err != nil {
				return nil, err
			}
			errs[place-1] = other
		}
	}
	return errs, nil
}
