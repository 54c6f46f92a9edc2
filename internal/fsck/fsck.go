// Package fsck checks all keys of Delayer while programs use them, and repairs faults.
//
// It reads the queues, the pool, and then every key that SCAN finds. Each step keeps Redis busy for about a millisecond, followed
// by a rest of the same length. A repair checks the fault again in the same script. Two faults need more time, because sound data
// may look like them briefly: a job without a state, which an original consumer may be taking, and a wrong count of reserved
// jobs, which changes while leases are counted. They are reported only if they are unchanged after a wait.
package fsck

import (
	"cmp"
	"context"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"time"

	"github.com/mix-basic/delayer/internal/fleet"
	"github.com/mix-basic/delayer/internal/store"
)

// Options configure a check. The zero value only reports.
type Options struct {
	Repair   bool
	Lost     string                // handling of lost jobs if Repair is set: store.LostRequeue, the default, store.LostDrop, or List
	Wait     time.Duration         // time until a suspicion is checked again; 0: a minute
	Examples int                   // maximum number of names per kind in the Report; 0: 5
	Progress func(done, total int) // called after each step; done grows beyond total if keys are added
}

// List leaves lost jobs where they are.
const List = "list"

// Report is the result of a check.
type Report struct {
	Keys     int       `json:"keys"`    // Delayer's keys
	Entries  int       `json:"entries"` // entries of the pool and the queues
	Findings []Finding `json:"findings"`
	Left     int       `json:"left"` // faults of all kinds that are left
	// Busy is the number of topics whose count of reserved jobs kept changing, so that it was not compared with
	// the leases.
	Busy int `json:"busy_topics"`
}

// Finding is a kind of fault.
type Finding struct {
	Kind     string   `json:"kind"`
	Found    int      `json:"found"`
	Repaired int      `json:"repaired"`
	Left     int      `json:"left"`
	Examples []string `json:"examples"`
}

// Kind is a kind of faults.
type Kind struct {
	Name, Means string
	stays       bool // a repair leaves it as it is
}

// Kinds lists all kinds, in the order of the report.
var Kinds = []Kind{
	{"lost_job", "jobs that are neither waiting, ready nor reserved: nobody would get them", false},
	{"incomplete", "jobs and dead letters without a topic", false},
	{"reserved_count", "topics whose number of reserved jobs differs from the leases", false},
	{"dead_letter_unlisted", "dead letters that their topic's list lacks", false},
	{"dead_entry_without_letter", "entries of lists of dead letters without a letter", false},
	{"unknown_topic", "topics with jobs that are not among the known topics", false},
	{"parked_without_pause", "parked queues or waiting clients of topics that are not paused", false},
	{"schedule_unlisted", "schedules that the list of schedules lacks", false},
	{"schedule_without_entry", "schedules that would never fire", false},
	{"schedule_without_job", "names of schedules that do not exist", false},
	{"group_without_job", "groups whose job is gone", false},
	{"unreferenced", "keys that nothing refers to", false},
	{"wrong_type", "keys of another type than Delayer's", false},
	{"wrong_partition", "jobs in a partition that is not theirs: calls by ID do not find them; they stay", true},
	{"other_layout", "partitions beyond the number of partitions that have keys; they stay", true},
	{"unknown_key", "keys under the prefix that Delayer does not know; they stay", true},
}

// Checker checks the jobs of one prefix.
type Checker struct {
	Options
	fleet *fleet.Fleet
	parts []*part
	seed  maphash.Seed

	report      Report
	found       map[fault]bool // true: repaired
	done, total int
	tired       time.Duration // how long Redis was kept busy since the last rest
}

type fault struct{ kind, name string }

// part is the state of the check in one partition.
type part struct {
	*store.Store
	number   int
	ready    map[uint64]struct{} // hashes of the IDs in its queues
	walked   map[string]bool     // topics whose queues were read
	suspects []store.Lost
	counts   map[string]store.ReservedCount // suspicious counts
}

// New returns a Checker for these jobs. It is used once.
func New(jobs *fleet.Fleet, o Options) *Checker {
	o.Wait, o.Lost, o.Examples = cmp.Or(o.Wait, time.Minute), cmp.Or(o.Lost, store.LostRequeue), cmp.Or(o.Examples, 5)
	if o.Progress == nil {
		o.Progress = func(int, int) {}
	}
	c := &Checker{Options: o, fleet: jobs, seed: maphash.MakeSeed(), found: map[fault]bool{}}
	for i, s := range c.fleet.Stores {
		c.parts = append(c.parts, &part{Store: s, number: i, ready: map[uint64]struct{}{}, walked: map[string]bool{}})
	}
	return c
}

// Run checks everything. If it fails, the Report contains what was found so far.
func (c *Checker) Run(ctx context.Context) (Report, error) {
	err := c.run(ctx)
	return c.result(), err
}

func (c *Checker) run(ctx context.Context) error {
	servers, err := c.fleet.Servers(ctx)
	if err != nil {
		return err
	}
	if err := c.measure(ctx, servers); err != nil {
		return err
	}
	for _, p := range c.parts {
		if err := c.walkPart(ctx, p); err != nil {
			return c.fleet.Named(p.number, err)
		}
	}
	for _, s := range servers {
		if err := c.walkKeys(ctx, s.Store); err != nil {
			return err
		}
	}
	for _, p := range c.parts {
		if err := c.look(ctx, p); err != nil {
			return c.fleet.Named(p.number, err)
		}
	}
	return c.checkSuspicions(ctx)
}

// measure estimates the number of keys and entries to read.
func (c *Checker) measure(ctx context.Context, servers []fleet.Server) error {
	for _, s := range servers {
		keys, err := s.Store.KeyCount(ctx)
		if err != nil {
			return err
		}
		c.total += keys
	}
	for _, p := range c.parts {
		c.total += p.Entries(ctx, p.Keys().JobPool())
	}
	return nil
}

// walkPart reads the queues, the pool and the lists of a partition.
func (c *Checker) walkPart(ctx context.Context, p *part) error {
	topics, _, err := p.KnownTopics(ctx, store.AllTopics, "")
	if err != nil && store.KindOf(err) != store.WrongType {
		return err
	}
	for _, topic := range topics {
		if err := c.walkTopic(ctx, p, topic); err != nil {
			return err
		}
	}
	if p.counts, err = c.walkPool(ctx, p, true); err != nil {
		return err
	}
	return c.walkSet(ctx, p, store.SchedulesSet, "")
}

// checkPartition reports the IDs that belong to another partition.
func (c *Checker) checkPartition(p *part, ids ...string) {
	for _, id := range ids {
		if c.fleet.Of(id) != p.Store {
			c.note(p, "wrong_partition", id, false)
		}
	}
}

// note counts a fault, once.
func (c *Checker) note(p *part, kind, name string, repaired bool) {
	if len(c.parts) > 1 && p != nil {
		name = fmt.Sprintf("%s (partition %d)", name, p.number)
	}
	f := fault{kind, name}
	c.found[f] = c.found[f] || repaired
}

func (c *Checker) noteAll(p *part, faults []store.Fault) {
	for _, f := range faults {
		c.note(p, f.Kind, f.Name, f.Repaired)
	}
}

// result summarizes the findings.
func (c *Checker) result() Report {
	r := c.report
	for f, repaired := range c.found {
		i := slices.IndexFunc(r.Findings, func(of Finding) bool { return of.Kind == f.kind })
		if i < 0 {
			i, r.Findings = len(r.Findings), append(r.Findings, Finding{Kind: f.kind})
		}
		of := &r.Findings[i]
		of.Found++
		if repaired {
			of.Repaired++
		} else {
			of.Left++
			r.Left++
		}
		of.Examples = append(of.Examples, f.name)
	}
	place := func(kind string) int {
		return slices.IndexFunc(Kinds, func(k Kind) bool { return k.Name == kind })
	}
	slices.SortFunc(r.Findings, func(a, b Finding) int { return cmp.Compare(place(a.Kind), place(b.Kind)) })
	for i := range r.Findings {
		of := &r.Findings[i]
		slices.Sort(of.Examples)
		if !(of.Kind == "lost_job" && c.Lost == List) { // all lost jobs are listed, without a limit
			of.Examples = of.Examples[:min(len(of.Examples), c.Examples)]
		}
	}
	return r
}

// Repairable returns how many of the faults that are left a repair is for.
func (r Report) Repairable() (n int) {
	for _, f := range r.Findings {
		if !f.kind().stays {
			n += f.Left
		}
	}
	return n
}

// Means returns the meaning of the finding's kind.
func (f Finding) Means() string { return f.kind().Means }

func (f Finding) kind() Kind {
	i := slices.IndexFunc(Kinds, func(k Kind) bool { return k.Name == f.Kind })
	if i < 0 {
		return Kind{Name: f.Kind, Means: strings.ReplaceAll(f.Kind, "_", " ")}
	}
	return Kinds[i]
}
