package dashboard

import (
	"testing"

	"github.com/gomodule/redigo/redis"
)

// A Redis that has no connection left is busy, as the API says, too.
func TestTooManyClientsIsTemporary(t *testing.T) {
	if status, key := kindOf(redis.Error("ERR max number of clients reached")); status != 503 || key != "problem.busy" {
		t.Errorf("it is %d %s", status, key)
	}
}
