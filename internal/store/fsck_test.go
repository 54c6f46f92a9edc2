package store

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/gomodule/redigo/redis"
)

// A wrong number of reserved jobs becomes the number of leases; the marks of limits stay. A number that has changed since
// it was read is left as it is, and 0 is not stored.
func TestFsckReserved(t *testing.T) {
	b, _ := onRedis(t)
	marked := func(n int) string { return fmt.Sprint(2*limitMark + n) }
	b.do(t, "HSET", "delayer:reserved", "none", 5, "more", 1, "negative", -2, "limited", marked(7), "changed", 4)
	corrected, err := b.FsckReserved([]ReservedCount{
		{"none", "5", 0}, {"more", "1", 3}, {"negative", "-2", 2}, {"limited", marked(7), 3}, {"changed", "3", 9}, {"missing", "0", 1},
	}).Do(t.Context())
	if want := []string{"none", "more", "negative", "limited", "missing"}; err != nil || !slices.Equal(corrected, want) {
		t.Errorf("corrected %q, %v, want %q", corrected, err, want)
	}
	kept, err := redis.StringMap(b.do(t, "HGETALL", "delayer:reserved"), nil)
	want := map[string]string{"more": "3", "negative": "2", "limited": marked(3), "changed": "4", "missing": "1"}
	if err != nil || !maps.Equal(kept, want) {
		t.Errorf("the numbers are %v, %v, want %v", kept, err, want)
	}
}
