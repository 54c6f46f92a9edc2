package inspect

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mix-basic/delayer/internal/store"
)

const (
	// waitersStep is how many topics are read at a time.
	waitersStep = 500
	// maxClients is the most clients whose programs are read.
	maxClients = 10000
)

// Listeners are the programs that wait for jobs of some topics. A busy program waits for nothing.
type Listeners struct {
	// Clients are how many clients wait for each topic.
	Clients []int
	// Programs are the clients' programs, sorted by host, name and process. Clients that do not say theirs are one Program without a name,
	// the last one.
	Programs []Listener
}

// Listener is a program that waits for jobs.
type Listener struct {
	store.Program
	Clients int       // how many of it wait
	Since   time.Time // since when its longest-waiting client waits
	Topics  []string  // for which it waits, of those that were asked for, in their order
}

// Waiters returns how many clients wait for jobs of each topic; nil if this Redis user may not know.
func (o *Inspector) Waiters(ctx context.Context, topics []store.WaitedFor) ([]int, error) {
	all, err := o.listeners(ctx, topics, false)
	if all == nil || err != nil {
		return nil, err
	}
	return all.Clients, nil
}

// Listeners returns the programs that wait for jobs of the topics; nil if this Redis user may not know.
func (o *Inspector) Listeners(ctx context.Context, topics []store.WaitedFor) (*Listeners, error) {
	return o.listeners(ctx, topics, true)
}

// listeners reads them from the readable partitions.
func (o *Inspector) listeners(ctx context.Context, topics []store.WaitedFor, named bool) (*Listeners, error) {
	failed := o.none()
	found := listening{topics: topics, programs: map[string]store.Program{}, of: map[store.Program]*listener{}}
	parts, err := gather(ctx, o, failed, func(ctx context.Context, _ int, s *store.Store) (part [][]store.Waiter, err error) {
		for some := range slices.Chunk(topics, waitersStep) {
			waiters, err := s.Waiters(ctx, some)
			if err == nil && named {
				err = found.learn(ctx, s, waiters)
			}
			if err != nil {
				return nil, err
			}
			part = append(part, waiters...)
		}
		return part, nil
	})
	switch {
	case slices.ContainsFunc(failed, store.Refused):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("count waiters: %w", err)
	}
	all := &Listeners{Clients: make([]int, len(topics))}
	for _, part := range parts {
		found.ids = map[store.Program]map[string]bool{}
		for k, waiters := range part {
			all.Clients[k] = max(all.Clients[k], len(waiters)) // a program waits in all partitions
			if named {
				found.add(k, waiters)
			}
		}
		found.count()
	}
	all.Programs = found.list()
	return all, nil
}

// listening is what was found about programs.
type listening struct {
	topics   []store.WaitedFor
	mu       sync.Mutex               // guards programs, while partitions are asked at the same time
	programs map[string]store.Program // by client ID
	of       map[store.Program]*listener
	ids      map[store.Program]map[string]bool // in one partition
}

type listener struct {
	Listener
	topics map[int]bool
}

// learn reads the programs of waiters that are not known yet.
func (f *listening) learn(ctx context.Context, partition *store.Store, waiters [][]store.Waiter) error {
	var unknown []string
	f.mu.Lock()
	for _, list := range waiters {
		for _, w := range list {
			if _, known := f.programs[w.ID]; !known && len(f.programs) < maxClients {
				f.programs[w.ID] = store.Program{}
				unknown = append(unknown, w.ID)
			}
		}
	}
	f.mu.Unlock()
	programs, err := partition.Programs(ctx, unknown)
	f.mu.Lock()
	defer f.mu.Unlock()
	maps.Copy(f.programs, programs)
	return err
}

// add adds the waiters of a topic.
func (f *listening) add(topic int, waiters []store.Waiter) {
	for _, w := range waiters {
		program := f.programs[w.ID]
		l := f.of[program]
		if l == nil {
			l = &listener{Listener{Program: program, Since: w.Since}, map[int]bool{}}
			f.of[program] = l
		}
		if f.ids[program] == nil {
			f.ids[program] = map[string]bool{}
		}
		f.ids[program][w.ID], l.topics[topic] = true, true
		if w.Since.Before(l.Since) {
			l.Since = w.Since
		}
	}
}

// count adds how many clients of each program wait in a partition: in a cluster they have another ID in each.
func (f *listening) count() {
	for program, ids := range f.ids {
		f.of[program].Clients = max(f.of[program].Clients, len(ids))
	}
}

func (f *listening) list() []Listener {
	var all []Listener
	for _, l := range f.of {
		for _, i := range slices.Sorted(maps.Keys(l.topics)) {
			l.Topics = append(l.Topics, f.topics[i].Topic)
		}
		all = append(all, l.Listener)
	}
	slices.SortFunc(all, func(a, b Listener) int {
		if (a.Name == "") != (b.Name == "") {
			return cmp.Compare(b.Name, a.Name)
		}
		return cmp.Or(strings.Compare(a.Host, b.Host), strings.Compare(a.Name, b.Name), cmp.Compare(a.PID, b.PID))
	})
	return all
}
