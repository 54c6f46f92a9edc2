package store

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"
)

var registerScript = newScript("register")

// Program is a program that waits for jobs.
type Program struct {
	Host, Name string
	PID        int
}

// ThisProgram returns the running program, named by its file.
var ThisProgram = sync.OnceValue(func() Program {
	host, _ := os.Hostname()
	return Program{Host: short(host), Name: short(filepath.Base(os.Args[0])), PID: os.Getpid()}
})

// Register stores the waiter's program in each of the partitions, which share a connection, for WaitingFor. Best effort.
func Register(ctx context.Context, in []*Store, waiter string, p Program) {
	pipeline, err := in[0].Pipeline(ctx)
	if err != nil {
		return
	}
	defer pipeline.Close()
	calls := make([]*Call[struct{}], len(in))
	for i, s := range in {
		args := append(arguments(4, s.keys.Client(waiter)), WaitingFor.Milliseconds(), p.Host, p.PID, p.Name)
		calls[i] = newCall(s, registerScript, args, unread).Send(pipeline)
	}
	for _, c := range calls {
		c.Wait(ctx)
	}
}

// maxWaiters is the maximum number of waiters read per topic.
const maxWaiters = 1000

// Waiter is a client that waits for jobs.
type Waiter struct {
	ID    string
	Since time.Time
}

// WaitedFor is a topic to read the waiters of; with Limited, also its throttled clients.
type WaitedFor struct {
	Topic   string
	Limited bool
}

// Waiters returns the clients that wait for jobs of each topic. A program has one or a few, however many of its callers wait, and none
// while all of them are busy. Clients that only poll, or pop like the original's, are not included.
func (s *Store) Waiters(ctx context.Context, topics []WaitedFor) (waiters [][]Waiter, err error) {
	if len(topics) == 0 {
		return nil, nil
	}
	err = s.onNode(ctx, func(conn redis.Conn) (err error) {
		waiters, err = s.waiters(ctx, conn, topics)
		return err
	})
	return waiters, err
}

func (s *Store) waiters(ctx context.Context, conn redis.Conn, topics []WaitedFor) ([][]Waiter, error) {
	names := make([]string, len(topics))
	var limited []int
	for i, t := range topics {
		if names[i] = t.Topic; t.Limited {
			limited = append(limited, i)
		}
	}
	replies, err := s.eachWaiting(ctx, conn, names, "ZRANGE", 0, maxWaiters-1, "WITHSCORES")
	if err != nil {
		return nil, err
	}
	all := make([][]Waiter, len(topics))
	for i, reply := range replies {
		if all[i], err = waitersOf(reply); err != nil {
			return nil, err
		}
	}
	for _, i := range limited {
		conn.Send("ZRANGE", s.keys.ThrottledWaiters(names[i]), 0, maxWaiters-1, "WITHSCORES")
	}
	if len(limited) > 0 {
		if replies, err = redis.Values(redis.DoContext(conn, ctx, "")); err != nil {
			return nil, err
		}
	}
	for k, i := range limited {
		held, err := waitersOf(replies[k])
		if err != nil {
			return nil, err
		}
		all[i] = append(all[i], held...)
	}
	return all, s.leaveAlive(ctx, conn, all)
}

// waitersOf reads ZRANGE's reply.
func waitersOf(reply any) (waiters []Waiter, err error) {
	fields, err := redis.Strings(reply, nil) // also an error of Redis
	for pair := range slices.Chunk(fields, 2) {
		us, _ := strconv.ParseFloat(pair[1], 64)
		waiters = append(waiters, Waiter{pair[0], time.UnixMicro(int64(us))})
	}
	return waiters, err
}

// leaveAlive removes the waiters from the lists to whose channels no client is subscribed.
func (s *Store) leaveAlive(ctx context.Context, conn redis.Conn, lists [][]Waiter) error {
	numbers := "NUMSUB"
	if s.Sharded() {
		numbers = "SHARDNUMSUB"
	}
	channels, alive := redis.Args{numbers}, map[string]bool{}
	var asked []string
	for _, list := range lists {
		for _, w := range list {
			if _, known := alive[w.ID]; !known {
				alive[w.ID] = false
				channels, asked = append(channels, s.keys.Wake(w.ID)), append(asked, w.ID)
			}
		}
	}
	if len(asked) == 0 {
		return nil
	}
	reply, err := redis.Values(redis.DoContext(conn, ctx, "PUBSUB", channels...))
	if err != nil {
		return err
	}
	if len(reply) < 2*len(asked) {
		return errReply("PUBSUB "+numbers, reply)
	}
	for k, waiter := range asked {
		n, _ := reply[2*k+1].(int64)
		alive[waiter] = n > 0
	}
	for i, list := range lists {
		lists[i] = slices.DeleteFunc(list, func(w Waiter) bool { return !alive[w.ID] })
	}
	return nil
}

// Programs returns the programs of the waiters, as far as they have registered.
func (s *Store) Programs(ctx context.Context, waiters []string) (found map[string]Program, err error) {
	if len(waiters) == 0 {
		return nil, nil
	}
	err = s.onNode(ctx, func(conn redis.Conn) (err error) {
		found, err = s.programs(ctx, conn, waiters)
		return err
	})
	return found, err
}

func (s *Store) programs(ctx context.Context, conn redis.Conn, waiters []string) (map[string]Program, error) {
	for _, waiter := range waiters {
		conn.Send("LRANGE", s.keys.Client(waiter), 0, 2)
	}
	replies, err := redis.Values(redis.DoContext(conn, ctx, ""))
	if err != nil {
		return nil, err
	}
	found := make(map[string]Program, len(waiters))
	for i, reply := range replies {
		fields, err := redis.Strings(reply, nil)
		if err != nil || len(fields) < 3 { // counts as none
			continue
		}
		pid, _ := strconv.Atoi(fields[1])
		found[waiters[i]] = Program{Host: short(fields[0]), Name: short(fields[2]), PID: pid}
	}
	return found, nil
}
