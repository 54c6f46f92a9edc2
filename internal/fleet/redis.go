package fleet

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/mix-basic/delayer/internal/redisconn"
	"github.com/mix-basic/delayer/internal/store"
)

// Redis is where jobs are kept, and in how many partitions. It is what client.Redis is inside.
type Redis struct {
	conns      redisconn.Redis // nil: not made with NewRedis
	partitions int
	close      func() error // nil: the connections are the caller's
}

// NewRedis returns a Redis with these connections. 0 partitions mean 1. Close calls close, unless it is nil.
func NewRedis(conns redisconn.Redis, partitions int, close func() error) *Redis {
	return &Redis{conns, cmp.Or(partitions, 1), close}
}

// Close closes all connections, unless they are the caller's.
func (r *Redis) Close() error {
	if r == nil || r.close == nil {
		return nil
	}
	return r.close()
}

// Conns returns the connections, for tests.
func Conns(r *Redis) redisconn.Redis { return r.conns }

// MaxPartitions is the most partitions.
const MaxPartitions = 1024

// CheckPartitions returns why there can't be n partitions. 0 means 1.
func CheckPartitions(n int) error {
	if n < 0 || n > MaxPartitions {
		return fmt.Errorf("partitions: %d is not from 1 to %d", n, MaxPartitions)
	}
	return nil
}

// Open returns the Fleet for the jobs whose keys begin with prefix; empty means "delayer:". A single partition has the prefix itself, as in the
// original; with several, each adds its number in braces, as in "delayer:{3}:". Before their first call the partitions check that other programs
// have the same number, and fail with a LayoutError if not.
func Open(r *Redis, prefix string) (*Fleet, error) {
	if r == nil || r.conns == nil {
		return nil, errors.New("redis: it is nil, or was not made with client.Connect or client.UsePool")
	}
	prefix = cmp.Or(prefix, store.DefaultPrefix)
	source, keys := redisconn.NewSource(r.conns), store.KeysOf(prefix)
	err := CheckPartitions(r.partitions)
	switch {
	case err != nil:
		return nil, err
	case r.partitions > 1 && strings.ContainsAny(prefix, "{}"):
		return nil, fmt.Errorf("prefix: %s has braces, which the keys of %d partitions have themselves", store.Quote(prefix), r.partitions)
	case r.partitions == 1 && source.InCluster() && redisconn.TagOf(prefix) == prefix:
		return nil, fmt.Errorf("partitions: 1, but keys that begin with %s are in many slots of a cluster: want several, such as 16, "+
			"or a prefix with a tag, such as {delayer}:, here and in all programs", store.Quote(prefix))
	}
	f := &Fleet{Prefix: prefix, keeper: store.At(source, keys.Partition(0)), single: store.At(source, keys)}
	admission := store.NewAdmission(f.admit)
	for i := range r.partitions {
		k := keys
		if r.partitions > 1 {
			k = keys.Partition(i)
		}
		s := store.At(source, k)
		s.AdmittedBy(admission)
		f.Stores = append(f.Stores, s)
	}
	return f, nil
}
