// Package store changes jobs in Redis. A Store is one partition. It is the only package that knows keys and scripts.
//
// Invariants: every change of a job's state is one method and one Lua script with the same name, whose header has its arguments, results and
// cost. A script reads and checks everything before its first write. A job's bucket and the pool decide what is true; entries of ready
// queues, counts and waiters are hints that each script checks. Redis's clock decides. Go writes the names of keys and constants, and luagen
// puts them into the scripts.
//
// Tried and rejected: Redis Functions (Redis 7.0 and newer only, another permission); a field or a sorted set of leases instead of pool entries
// (half and a third of the speed); reserves that leave topics with a limit to another script (1 % faster, but a second call at a limit); a
// burial as a mode of retry (15 % slower).
package store

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/internal/redisconn"
)

// Store is one partition: a set of jobs in one Redis database. It is safe for concurrent use.
type Store struct {
	source    *redisconn.Source
	inCluster bool // see InCluster
	keys      Keys
	jobPool   string // its key, which almost every script needs
	recent    *recentTopics

	admission  *Admission      // passed before the first connection; may be nil
	onReplaced func()          // see OnReplaced
	end        context.Context // see EndWith; may be nil
	ended      error
}

// New returns the Store of the jobs in that Redis whose keys begin with prefix.
func New(r redisconn.Redis, prefix string) *Store {
	return At(redisconn.NewSource(r), Keys{prefix})
}

// At returns the Store of the jobs with these keys, in the Redis of that Source.
func At(source *redisconn.Source, keys Keys) *Store {
	return &Store{source: source.Of(keys.prefix), inCluster: source.InCluster(), keys: keys, jobPool: keys.JobPool(), recent: newRecentTopics()}
}

// AdmittedBy sets the Admission that the store passes before its first connection. Call it before the store is used.
func (s *Store) AdmittedBy(a *Admission) { s.admission = a }

// OnReplaced sets a function to call when a connection was replaced because its server takes no writes, and the new one does. Call it before
// the store is used.
func (s *Store) OnReplaced(f func()) { s.onReplaced = f }

// EndWith makes calls that wait for a connection when ctx ends, and all later ones, fail with that error. Call it before the store is used.
func (s *Store) EndWith(ctx context.Context, err error) { s.end, s.ended = ctx, err }

// Keys returns the names of the store's keys.
func (s *Store) Keys() Keys { return s.keys }

// connection returns one of the pool.
func (s *Store) connection(ctx context.Context) (conn redis.Conn, err error) {
	within := ctx
	if s.end != nil && ctx.Done() == nil {
		within = s.end
	} else if s.end != nil {
		var cancel context.CancelFunc
		within, cancel = context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(s.end, cancel)()
	}
	if a := s.admission; a != nil && !a.done.Load() {
		err = a.Pass(within)
	}
	if err == nil {
		conn, err = s.source.Get(within)
	}
	if s.end != nil && s.end.Err() != nil {
		if err == nil {
			conn.Close()
		}
		return nil, s.ended
	}
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

// errReply is the error about an unexpected reply. It shows none of the reply's texts, which may be bodies of jobs.
func errReply(script string, reply any) error {
	return fmt.Errorf("redis answered %s with %s", script, shapeOf(reply))
}

// shapeOf describes a reply, with the lengths of its texts.
func shapeOf(reply any) string {
	const most = 8 // values of a list
	switch r := reply.(type) {
	case nil:
		return "nil"
	case redis.Error:
		return "an error"
	case int64:
		return strconv.FormatInt(r, 10)
	case []byte:
		return fmt.Sprintf("%d bytes", len(r))
	case string:
		return fmt.Sprintf("%d bytes", len(r))
	case []any:
		var values []string
		for _, value := range r[:min(len(r), most)] {
			values = append(values, shapeOf(value))
		}
		if len(r) > most {
			values = append(values, fmt.Sprintf("… (%d)", len(r)))
		}
		return "[" + strings.Join(values, ", ") + "]"
	}
	return fmt.Sprintf("%T", reply)
}

// Ping checks the connection.
func (s *Store) Ping(ctx context.Context) error {
	_, err := s.command(ctx, "PING")
	return err
}
