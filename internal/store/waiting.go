package store

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

// WaitingFor is how long an entry of a waiter lasts at least. (WAITING_FOR in Lua.)
const WaitingFor = time.Hour

// maxLook is how many queues one script looks at, so that it does not keep Redis from others.
const maxLook = 250

var (
	lookScript = newScript("look")
	wakeScript = newScript("wake")
)

// LookAt are topics that a Look asks for, whether they have ready jobs.
type LookAt struct {
	Topics []string
	Waiter string          // is entered for those that have none; "" for nobody
	Since  []time.Duration // for how long it has waited for each; below 0 it is not entered
}

// Looked is what a Look finds.
type Looked struct {
	Lengths []int  // of the topics' ready queues; 1 of one that can't be read: a pop of it tells why
	Entered bool   // the waiter stands wherever it was to be entered
	Added   []bool // it did not stand there before
}

// Look looks at ready queues. It asks a server that takes writes, where the pipeline can find one, as no
// other knows that a queue is empty.
func (p *Pipeline) Look(l LookAt) (Looked, error) {
	all := Looked{Entered: true, Lengths: make([]int, len(l.Topics)), Added: make([]bool, len(l.Topics))}
	for first := 0; first < len(l.Topics); first += maxLook {
		end := min(first+maxLook, len(l.Topics))
		part := Looked{all.Lengths[first:end], true, all.Added[first:end]}
		if err := p.lookAt(l, first, &part); err != nil {
			return Looked{}, err
		}
		all.Entered = all.Entered && part.Entered
	}
	return all, nil
}

// lookAt looks at the queues from first on that the part is for.
func (p *Pipeline) lookAt(l LookAt, first int, part *Looked) error {
	topics := l.Topics[first : first+len(part.Lengths)]
	keys, args := []string{p.store.keys.JobPool()}, []any{l.Waiter}
	for i, topic := range topics {
		waited := int64(-1)
		if l.Since != nil && l.Since[first+i] >= 0 {
			waited = l.Since[first+i].Microseconds()
		}
		keys, args = append(keys, p.store.keys.ReadyQueue(topic)), append(args, topic, waited)
	}
	reply, err := p.receive(p.send(lookScript, lookScript.args(keys, args...)))
	if err != nil && !Temporary(err) {
		copy(part.Lengths, slices.Repeat([]int{1}, len(topics)))
		return nil
	}
	list, err := redis.Values(reply, err)
	if err != nil {
		return err
	}
	var added []int
	lengths, err := redis.Scan(list, &part.Entered, &added)
	if err != nil || len(lengths) > 0 && len(lengths) != len(topics) {
		return errReply("look", reply)
	}
	for _, place := range added {
		part.Added[place-1] = true
	}
	for i := range lengths {
		n, _ := lengths[i].(int64)
		part.Lengths[i] = int(n)
	}
	return nil
}

// SendWake has the next waiters of the topics woken, if these have jobs. Its answer says nothing, but has to be
// waited for: Redis may not know the script.
func (p *Pipeline) SendWake(topics []string) Answer[struct{}] {
	call := p.send(wakeScript, wakeScript.args([]string{p.store.keys.JobPool()}, redis.Args{}.AddFlat(topics)...))
	return Answer[struct{}]{p, call, func(any) (struct{}, error) { return struct{}{}, nil }}
}

// ReadWake is what a message on a waiter's channel says: of which topic there are jobs, and how many.
func ReadWake(message []byte) (topic string, jobs int) {
	count, topic, _ := strings.Cut(string(message), " ")
	jobs, _ = strconv.Atoi(count)
	return topic, max(jobs, 1)
}

// Served reports whether a server runs that wakes waiters. One of the original's does not.
func (s *Store) Served(ctx context.Context) bool {
	conn, err := s.pool.Get(ctx)
	if err != nil {
		return false
	}
	defer conn.Close()
	exists, err := redis.Bool(redis.DoContext(conn, ctx, "EXISTS", s.keys.Servers()))
	return err == nil && exists
}

// maxWaiters is how many waiters of a topic are counted.
const maxWaiters = 1000

// Waiters are how many clients wait for jobs of each topic. A program has one or a few, however many of its
// callers wait; while it is busy it waits for nothing. Who polls, or pops as the original does, is not among
// them.
func (s *Store) Waiters(ctx context.Context, topics []string) ([]int, error) {
	counts := make([]int, len(topics))
	if len(topics) == 0 {
		return counts, nil
	}
	conn, err := s.pool.Get(ctx)
	if err != nil {
		return nil, causeOf(ctx, err)
	}
	defer conn.Close()
	channels, of := redis.Args{"NUMSUB"}, []int{}
	for _, topic := range topics {
		conn.Send("ZRANGE", s.keys.Waiting(topic), 0, maxWaiters-1)
	}
	entered, err := redis.Values(redis.DoContext(conn, ctx, ""))
	if err != nil {
		return nil, causeOf(ctx, err)
	}
	for i, reply := range entered {
		waiters, err := redis.Strings(reply, nil)
		if err != nil {
			return nil, err
		}
		for _, waiter := range waiters {
			channels, of = append(channels, s.keys.Wake(waiter)), append(of, i)
		}
	}
	if len(of) == 0 {
		return counts, nil
	}
	reply, err := redis.Values(redis.DoContext(conn, ctx, "PUBSUB", channels...)) // who has died does not count
	if err != nil {
		return nil, causeOf(ctx, err)
	}
	for k, i := range of {
		if 2*k+1 >= len(reply) {
			return nil, errReply("PUBSUB NUMSUB", reply)
		}
		n, _ := reply[2*k+1].(int64)
		counts[i] += min(int(n), 1)
	}
	return counts, nil
}
