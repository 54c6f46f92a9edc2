package server

import (
	"errors"
	"testing"

	"github.com/gomodule/redigo/redis"
)

// Trouble in one pass of a round counts, no matter what the later passes return.
func TestTrouble(t *testing.T) {
	away, denied, moves := errors.New("connection refused"), redis.Error("NOPERM no"), redis.Error("TRYAGAIN the slot is on its way")
	for name, c := range map[string]struct {
		met  []error
		want trouble
	}{
		"none":                {[]error{nil, nil}, trouble{}},
		"refused":             {[]error{denied, nil}, trouble{}},
		"away, then well":     {[]error{away, nil}, trouble{true, true}},
		"away, then refused":  {[]error{away, denied}, trouble{true, true}},
		"away at last":        {[]error{nil, away}, trouble{true, true}},
		"a slot, then well":   {[]error{moves, nil}, trouble{true, false}},
		"a slot, then away":   {[]error{moves, away}, trouble{true, true}},
		"away, then its slot": {[]error{away, moves}, trouble{true, true}},
	} {
		var got trouble
		for _, err := range c.met {
			got.add(err)
		}
		if got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}
