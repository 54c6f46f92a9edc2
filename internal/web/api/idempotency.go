package api

import (
	"encoding/json"
	"maps"
	"strings"
	"time"
)

// IdempotencyKey is the header that makes a push without an ID safe to repeat.
const IdempotencyKey = "Idempotency-Key"

// Lifetime and maximum size of a key.
const (
	keyWindow = 24 * time.Hour
	maxKey    = 255
)

// withKey uses the request's key, if any, as the job's ID and makes its push count once.
func (c *call) withKey() (keyed bool, err error) {
	keys := c.r.Header.Values(IdempotencyKey)
	if len(keys) == 0 {
		return false, nil
	}
	key, ok := readKey(keys[0])
	switch {
	case len(keys) > 1:
		return false, badRequest.parameter(IdempotencyKey, "it is given %d times", len(keys))
	case !ok:
		return false, invalid.parameter(IdempotencyKey, `want 1 to %d characters of ASCII without " and \, in double quotes or not`, maxKey)
	case c.body.has("id"):
		return false, invalid.parameter(IdempotencyKey, "the job has an id: want one of the two, and once for a push of an ID that counts once")
	}
	c.body["id"] = "key:" + key
	if !c.body.has("once") {
		c.body["once"] = keyWindow
	}
	return true, nil
}

// readKey reads a key in double quotes, as the header's draft requires, or without them, as many clients send
// it.
func readKey(value string) (key string, ok bool) {
	if inner, quoted := strings.CutPrefix(value, `"`); quoted {
		if value, quoted = strings.CutSuffix(inner, `"`); !quoted {
			return "", false
		}
	}
	isOther := func(r rune) bool { return r < ' ' || r > '~' || r == '"' || r == '\\' }
	return value, value != "" && len(value) <= maxKey && !strings.ContainsFunc(value, isOther)
}

// contentOf returns a canonical text of what a push says about its job, so that equal pushes compare equal
// however they are written.
func contentOf(job values) string {
	said := maps.Clone(job)
	delete(said, "replicas")
	delete(said, "replicas_timeout")
	for name, value := range said {
		switch value := value.(type) {
		case string:
			said[name] = []byte(value) // a []byte, because it may not be UTF-8
		case time.Time:
			said[name] = value.UTC()
		}
	}
	text, _ := json.Marshal(said) // sorted by name; never fails with the types of our fields
	return string(text)
}
