package store

import (
	"context"
	"slices"

	"github.com/gomodule/redigo/redis"
)

var popScript = newScript("pop")

// MaxPop is how many jobs one Pop takes at most, so that it does not keep Redis
// from others.
const MaxPop = 250

// Popped is what a Pop has taken out of Redis, or a Reserve has leased.
type Popped struct {
	Jobs   []Job
	Leases []Lease  // of the Jobs, if these are reserved
	Stale  []string // IDs met in the queues whose jobs are gone
	PutOff []PutOff // jobs whose attempts are used up, and that can't be made dead letters
	// More is whether the script stopped early: there may be jobs although
	// fewer came than were asked for.
	More bool
}

// PutOff is a job that is to be tried again some seconds later, and why.
type PutOff struct {
	Topic, ID string
	Why       error
}

// Pop takes up to n of the next jobs of the topics, those of the first topic
// first: at most MaxPop, and about 1 MiB, or one job if that is larger. With an
// error of Redis nothing was taken; with one of the connection up to MaxPop jobs
// may be lost.
func (p *Pipeline) Pop(topics []string, n int) (Popped, error) { return p.SendPop(topics, n).Wait() }

// SendPop is Pop, of which the answer is waited for later.
func (p *Pipeline) SendPop(topics []string, n int) Answer[Popped] {
	call := p.send(popScript, appendAll(p.store.takeArgs(4+2*len(topics), topics, min(n, MaxPop)), topics))
	return Answer[Popped]{p, call, func(reply any) (Popped, error) { return poppedOf("pop", reply, topics, false) }}
}

// takeArgs are those that pop.lua and reserve.lua have in common. The topics come behind
// further ones.
func (s *Store) takeArgs(size int, topics []string, n int) []any {
	args := make([]any, 0, size)
	args = append(args, nil, 1+len(topics), s.keys.JobPool())
	for _, topic := range topics {
		args = append(args, s.keys.ReadyQueue(topic))
	}
	return append(args, n)
}

func appendAll(args []any, more []string) []any {
	for _, arg := range more {
		args = append(args, arg)
	}
	return args
}

// poppedOf reads pop.lua's answer, or reserve.lua's, which has leases.
func poppedOf(script string, reply any, topics []string, leased bool) (Popped, error) {
	var popped Popped
	list, _ := reply.([]any)
	queues, err := redis.Scan(list, &popped.More, &popped.Stale)
	if err != nil {
		return Popped{}, errReply(script, reply)
	}
	if leased && len(queues) > 0 {
		popped.PutOff, queues = putOffOf(queues[0]), queues[1:]
	}
	for len(queues) >= 2 {
		place, _ := queues[0].(int64)
		jobs, ok := queues[1].([]any)
		if !ok || len(jobs)%2 != 0 || place < 1 || int(place) > len(topics) {
			return Popped{}, errReply(script, reply)
		}
		queues = queues[2:]
		if leased {
			leases, ok := leasesOf(queues, len(jobs)/2)
			if !ok {
				return Popped{}, errReply(script, reply)
			}
			popped.Leases = append(popped.Leases, leases...)
			queues = queues[1:]
		}
		popped.Jobs = slices.Grow(popped.Jobs, len(jobs)/2)
		for ; len(jobs) > 0; jobs = jobs[2:] {
			id, _ := jobs[0].([]byte)
			body, _ := jobs[1].([]byte)
			popped.Jobs = append(popped.Jobs, Job{string(id), topics[place-1], string(body)})
		}
	}
	return popped, nil
}

// putOffOf reads those in reserve.lua's answer.
func putOffOf(reply any) (list []PutOff) {
	texts, _ := redis.Strings(reply, nil)
	for ; len(texts) >= 3; texts = texts[3:] {
		list = append(list, PutOff{texts[0], texts[1], redis.Error(texts[2])})
	}
	return list
}

var lengthsScript = newScript("lengths")

// maxLook is how many queues one script looks at, so that it does not keep Redis from others.
const maxLook = 250

// Ready is how many entries the topics' ready queues have.
func (s *Store) Ready(ctx context.Context, topics []string) ([]int, error) {
	p, err := s.Pipeline(ctx)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	return p.Ready(topics)
}

// Ready is how many entries the topics' ready queues have. It asks a server that takes writes,
// where the pipeline can find one, as no other knows that a queue is empty.
func (p *Pipeline) Ready(topics []string) ([]int, error) {
	all := make([]int, 0, len(topics))
	for some := range slices.Chunk(topics, maxLook) {
		lengths, err := p.lengths(some)
		if err != nil {
			return nil, err
		}
		all = append(all, lengths...)
	}
	return all, nil
}

func (p *Pipeline) lengths(topics []string) ([]int, error) {
	keys := make([]string, len(topics))
	for i, topic := range topics {
		keys[i] = p.store.keys.ReadyQueue(topic)
	}
	lengths, err := redis.Ints(p.receive(p.send(lengthsScript, lengthsScript.args(keys))))
	switch {
	case err != nil && !Temporary(err): // a pop of each tells which one it is, and why
		return slices.Repeat([]int{1}, len(topics)), nil
	case err == nil && len(lengths) == 0:
		return make([]int, len(topics)), nil
	}
	return lengths, err
}
