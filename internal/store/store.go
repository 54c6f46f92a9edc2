// Package store is the only one that knows how jobs lie in Redis. Every change
// of a job's state is one method and one Lua script beside it, named alike;
// the script's header says what it takes, gives and costs.
package store

import (
	"context"
	"fmt"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/internal/redisconn"
)

// Store is a set of jobs in one Redis database: one partition. It is safe for
// concurrent use.
type Store struct {
	router  redisconn.Router
	pool    redisconn.Source
	keys    Keys
	jobPool string // its key, which almost every script is given
	recent  *recentTopics

	admission  *Admission // asked before the first connection; nil if there is none
	onReplaced func()     // see OnReplaced
}

// New makes a Store of the jobs in that Redis whose keys begin with prefix.
func New(r redisconn.Redis, prefix string) *Store {
	return At(redisconn.NewRouter(r), Keys{prefix})
}

// At makes a Store of the jobs with these keys, on the router's Redis.
func At(router redisconn.Router, keys Keys) *Store {
	return &Store{router: router, pool: router.At(keys.prefix), keys: keys, jobPool: keys.JobPool(), recent: newRecentTopics()}
}

// AdmittedBy makes the store ask a before its first connection. It is called before the store is used.
func (s *Store) AdmittedBy(a *Admission) { s.admission = a }

// OnReplaced sets what is called whenever a connection led to a server that takes no writes, and was left. It is called before the store is used.
func (s *Store) OnReplaced(f func()) { s.onReplaced = f }

// Node returns the node that has the store's keys now. Stores that have the same one may share a pipeline. As long as
// the node is not known, no other Store has the same.
func (s *Store) Node() *redisconn.Node { return s.pool.Node() }

// Locate finds out which nodes have the partitions' keys, if nobody has asked that yet. It fails if no node of a cluster answers.
func (s *Store) Locate(ctx context.Context) error { return s.router.Locate(ctx) }

// Routes returns a number that changes whenever a store of its partitions may have another Node than before.
func (s *Store) Routes() uint64 { return s.router.Version() }

// ByNode groups items by the nodes that have the keys of their stores now. Groups, and the items of each, keep their order.
func ByNode[T any](items []T, store func(T) *Store) [][]T {
	return redisconn.ByNode(items, func(item T) redisconn.Source { return store(item).pool })
}

// OneOfEachNode returns the first store of each node.
func OneOfEachNode(stores []*Store) (first []*Store) {
	for _, here := range ByNode(stores, itself) {
		first = append(first, here[0])
	}
	return first
}

// itself is for ByNode of stores.
func itself(s *Store) *Store { return s }

// Keys names the store's keys.
func (s *Store) Keys() Keys { return s.keys }

// connection waits for one of the pool.
func (s *Store) connection(ctx context.Context) (redis.Conn, error) {
	if a := s.admission; a != nil && !a.done.Load() {
		if err := a.Pass(ctx); err != nil {
			return nil, err
		}
	}
	conn, err := s.pool.Get(ctx)
	if err != nil {
		return nil, causeOf(ctx, err)
	}
	return conn, nil
}

// milliseconds rounds up: a delay must not get shorter.
func milliseconds(d time.Duration) int64 {
	ms := d.Milliseconds()
	if d%time.Millisecond > 0 {
		ms++
	}
	return ms
}

func errReply(script string, reply any) error {
	return fmt.Errorf("redis answered %s with %.1000s", script, fmt.Sprint(reply))
}

// Ping asks for a sign of life.
func (s *Store) Ping(ctx context.Context) error {
	_, err := s.command(ctx, "PING")
	return err
}
