package api

import (
	"encoding/json"
	"maps"
	"strings"
	"time"
)

// IdempotencyKey is the header of a push that can be repeated until it is answered, although its job has no ID.
const IdempotencyKey = "Idempotency-Key"

// A key is one for so long, and has so many bytes at most.
const (
	keyWindow = 24 * time.Hour
	maxKey    = 255
)

// withKey has the request's key name the job of its body, if there is one: a push of it counts once.
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

// readKey reads a key in double quotes, as the header's draft has it, or without them, as many clients send it.
func readKey(value string) (key string, ok bool) {
	if inner, quoted := strings.CutPrefix(value, `"`); quoted {
		if value, quoted = strings.CutSuffix(inner, `"`); !quoted {
			return "", false
		}
	}
	isOther := func(r rune) bool { return r < ' ' || r > '~' || r == '"' || r == '\\' }
	return value, value != "" && len(value) <= maxKey && !strings.ContainsFunc(value, isOther)
}

// contentOf is what a push says of its job, as one text. However that is written, the same is the same.
func contentOf(job values) string {
	said := maps.Clone(job)
	delete(said, "replicas")
	delete(said, "replicas_timeout")
	for name, value := range said {
		switch value := value.(type) {
		case string:
			said[name] = []byte(value) // as it may be no UTF-8
		case time.Time:
			said[name] = value.UTC()
		}
	}
	text, _ := json.Marshal(said) // in the order of the names; it never fails with what fields are read as
	return string(text)
}
