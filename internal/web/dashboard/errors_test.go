package dashboard

import (
	"testing"

	"github.com/gomodule/redigo/redis"
)

// A Redis that has no connection left is busy, as the API says, too.
func TestTooManyClientsIsTemporary(t *testing.T) {
	if got := problemOf(redis.Error("ERR max number of clients reached"), english); got.Status != 503 || got.Key != "problem.busy" {
		t.Errorf("it is %d %s", got.Status, got.Key)
	}
}
