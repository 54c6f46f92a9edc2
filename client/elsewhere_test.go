package client

import (
	"errors"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/internal/store"
)

// A push gets another ID only if nothing was stored. A job that is stored, on too few replicas, would be there twice.
func TestElsewhereOnlyIfNotStored(t *testing.T) {
	busy := redis.Error("BUSY Redis is busy running a script")
	for name, c := range map[string]struct {
		err  error
		want bool
	}{
		"it is stored":                                 {nil, false},
		"it is refused":                                {busy, true},
		"its reply is lost":                            {errors.New("EOF"), false},
		"it is stored, and WAIT is refused":            {tooFewReplicas(store.Delayed{}, -1, busy), false},
		"it is stored, on too few replicas":            {tooFewReplicas(store.Delayed{}, 0, nil), false},
		"it is refused for good":                       {redis.Error("NOPERM"), false},
		"the cluster is down":                          {redis.Error("CLUSTERDOWN"), true},
		"the Client is closed, and nothing was stored": {ErrClosed, false},
	} {
		if got := mayTryElsewhere(t.Context(), c.err); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
