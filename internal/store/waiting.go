package store

import (
	"context"
	"slices"
	"time"

	"github.com/gomodule/redigo/redis"
)

// WaitingFor is the minimum time for which a waiter stays registered.
const WaitingFor = time.Hour

// maxChecked is the number of queues that one script checks, to bound its time in Redis.
const maxChecked = 250

var (
	checkScript = newScript("check")
	wakeScript  = newScript("wake")
)

// Check selects ready queues of a store to check.
type Check struct {
	Store  *Store
	Topics []string
	Waiter string          // registered for topics without jobs; "" for no waiter
	Since  []time.Duration // time it has waited for each topic; below 0 not to register it
}

// Checked is the result of a Check.
type Checked struct {
	Lengths    []int  // of the topics' ready queues; 1 if it can't be read: a pop then reports the error
	Registered bool   // the waiter is registered wherever it should be
	Added      []bool // it was not registered there before
}

// CheckAll checks ready queues of stores that share a connection. It uses a server that takes writes, if it finds one, as no other knows
// that a queue is empty. An idle connection is not tested first, as a check may be repeated: thousands of clients check now and then and do
// nothing else.
func CheckAll(ctx context.Context, checks ...Check) (found []Checked, err error) {
	s := checks[0].Store
	if s.admission != nil {
		if err := s.admission.Pass(ctx); err != nil {
			return nil, err
		}
	}
	conn, rested, err := s.source.GetUntried(ctx)
	if err != nil {
		return nil, causeOf(ctx, err)
	}
	found, err = checkOn(ctx, &Pipeline{store: s, conn: conn}, checks)
	if !rested || KindOf(err) != NoAnswer || ctx.Err() != nil {
		return found, err
	}
	p, err := s.Pipeline(ctx)
	if err != nil {
		return nil, err
	}
	return checkOn(ctx, p, checks)
}

// checkOn checks in the pipeline, and closes it.
func checkOn(ctx context.Context, p *Pipeline, checks []Check) (found []Checked, err error) {
	defer p.Close()
	sent := make([]*Checking, len(checks))
	for i := range checks {
		sent[i] = checks[i].Send(p)
	}
	for _, l := range sent {
		one, err := l.Wait(ctx)
		if err != nil {
			return nil, err
		}
		found = append(found, one)
	}
	return found, nil
}

// Checking is a Check in flight.
type Checking struct{ pages []checkPage }

type checkPage struct {
	*Call[Checked]
	topics int
}

// Send sends the check, in one call for some topics at a time.
func (l Check) Send(p *Pipeline) *Checking {
	sent := &Checking{}
	for first := 0; first < len(l.Topics); first += maxChecked {
		end := min(first+maxChecked, len(l.Topics))
		sent.pages = append(sent.pages, checkPage{l.page(first, end).Send(p), end - first})
	}
	return sent
}

// Wait returns the result. Its error may be temporary.
func (l *Checking) Wait(ctx context.Context) (Checked, error) {
	all := Checked{Registered: true}
	for _, p := range l.pages {
		page, err := p.Wait(ctx)
		switch {
		case err != nil && Temporary(err):
			return Checked{}, err
		case err != nil:
			page = Checked{Lengths: slices.Repeat([]int{1}, p.topics), Registered: true, Added: make([]bool, p.topics)}
		}
		all.Lengths, all.Added = append(all.Lengths, page.Lengths...), append(all.Added, page.Added...)
		all.Registered = all.Registered && page.Registered
	}
	return all, nil
}

// page checks some of the queues.
func (l Check) page(first, end int) *Call[Checked] {
	s, topics := l.Store, l.Topics[first:end]
	keys := make([]string, 1+len(topics))
	keys[0] = s.keys.JobPool()
	for i, topic := range topics {
		keys[1+i] = s.keys.ReadyQueue(topic)
	}
	args := append(arguments(1+2*len(topics), keys...), l.Waiter)
	for i, topic := range topics {
		waited := int64(-1)
		if l.Since != nil && l.Since[first+i] >= 0 {
			waited = l.Since[first+i].Microseconds()
		}
		args = append(args, topic, waited)
	}
	return newCall(s, checkScript, args, func(reply any) (Checked, error) { return checkedOf(reply, len(topics)) })
}

// checkedOf reads check.lua's reply, which has no lengths if all are 0.
func checkedOf(reply any, topics int) (Checked, error) {
	checked := Checked{Lengths: make([]int, topics), Added: make([]bool, topics)}
	var added []int
	lengths, err := scan(reply, &checked.Registered, &added)
	if err != nil || len(lengths) > 0 && len(lengths) != topics {
		return Checked{}, errUnreadable
	}
	for _, place := range added {
		checked.Added[place-1] = true
	}
	for i := range lengths {
		n, _ := lengths[i].(int64)
		checked.Lengths[i] = int(n)
	}
	return checked, nil
}

// Wake wakes the next waiters of the topics that have jobs. Its reply is empty, but must be awaited: Redis may not know the script.
func (s *Store) Wake(topics []string) *Call[struct{}] {
	return newCall(s, wakeScript, appendAll(arguments(len(topics), s.jobPool), topics), unread)
}

// Unregister removes the waiter from the topics, throttled or not, and, if it ends, its registered program as well. Best effort.
func (s *Store) Unregister(ctx context.Context, waiter string, topics []string, ends bool) {
	if len(topics) == 0 && !ends {
		return
	}
	conn, err := s.source.Get(ctx)
	if err != nil {
		return
	}
	defer conn.Close()
	if len(topics) > 0 {
		if _, err := s.eachWaiting(ctx, conn, topics, "ZREM", waiter); err != nil {
			return
		}
	}
	for _, topic := range topics {
		conn.Send("ZREM", s.keys.ThrottledWaiters(topic), waiter)
	}
	if ends {
		conn.Send("DEL", s.keys.Client(waiter))
	}
	redis.DoContext(conn, ctx, "")
}

// eachWaiting makes a command on the waiters of each topic. A reply may be a redis.Error.
func (s *Store) eachWaiting(ctx context.Context, conn redis.Conn, topics []string, command string, args ...any) ([]any, error) {
	for _, topic := range topics {
		conn.Send(command, append([]any{s.keys.Waiters(topic)}, args...)...)
	}
	replies, err := redis.Values(redis.DoContext(conn, ctx, ""))
	var paused []int
	for i, reply := range replies {
		if refused, _ := reply.(redis.Error); KindOf(refused) == WrongType {
			paused = append(paused, i)
			conn.Send(command, append([]any{s.keys.PausedWaiters(topics[i])}, args...)...)
		}
	}
	if err != nil || len(paused) == 0 {
		return replies, err
	}
	again, err := redis.Values(redis.DoContext(conn, ctx, ""))
	for k, reply := range again {
		replies[paused[k]] = reply
	}
	return replies, err
}

// Served reports whether a Delayer server runs, which wakes waiters; the original's does not. A user who may not read when a server was
// last heard of learns whether there has been one.
func (s *Store) Served(ctx context.Context) bool {
	servers, err := s.Servers(ctx)
	if Refused(err) {
		exists, err := redis.Bool(s.command(ctx, "EXISTS", s.keys.Servers()))
		return err == nil && exists
	}
	return len(Alive(servers)) > 0
}

// Overdue returns for how long the first job of the partitions, which share a connection, has been due: 0 if none is, or if that can't be read.
func Overdue(ctx context.Context, on []*Store) time.Duration {
	commands := [][]any{{"TIME"}}
	for _, s := range on {
		commands = append(commands, []any{"ZRANGE", s.keys.JobPool(), 0, 0, "WITHSCORES"})
	}
	replies, err := on[0].together(ctx, commands)
	if err != nil {
		return 0
	}
	var sec, micro int64
	if _, err := scan(replies[0], &sec, &micro); err != nil {
		return 0
	}
	now, longest := float64(sec)+float64(micro)/1e6, 0.0
	for _, reply := range replies[1:] {
		var id string
		due := now
		scan(reply, &id, &due) // changes nothing unless there is a job
		longest = max(longest, now-max(due, 0))
	}
	return time.Duration(longest * 1e9)
}
