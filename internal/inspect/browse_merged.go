package inspect

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/mix-basic/delayer/internal/store"
)

// browseMerged reads a page of all partitions in one order, which goes on behind a place of any of them. Each partition
// is read at least once, and then that which keeps the others waiting, browseSteps times at most.
func (o *Inspector) browseMerged(ctx context.Context, q Query, limit int, after store.Place) (Page, error) {
	m := merge{Query: q, read: make([]partitionRead, len(o.fleet.Stores))}
	each := min(limit, max(2*limit/len(o.fleet.Stores), 10))
	for i := range m.read {
		m.read[i].last = after
	}
	for step := 0; step < len(m.read)+browseSteps; step++ {
		i := step
		if step >= len(m.read) {
			if i = m.slowest(); i < 0 || len(m.settled()) >= limit {
				break
			}
		}
		r := &m.read[i]
		found, err := o.fleet.Stores[i].Browse(ctx, store.Browse{
			Topic: q.Topic, State: q.State, Jobs: each, Entries: browseStep, Preview: preview, After: r.last,
		})
		if err != nil {
			return Page{}, err
		}
		for k, job := range found.Jobs {
			m.jobs = append(m.jobs, placedJob{job, found.Places[k]})
		}
		m.looked += found.Looked
		r.last, r.ended = found.Last, found.Last == (store.Place{})
	}
	return m.page(limit), nil
}

// merge is what was read of several partitions for one page.
type merge struct {
	Query
	read   []partitionRead
	jobs   []placedJob
	looked int
}

// partitionRead is how far a partition was read.
type partitionRead struct {
	last  store.Place
	ended bool
}

type placedJob struct {
	Job
	place store.Place
}

// slowest is the partition that was read least far; -1 if all were read to their ends.
func (m *merge) slowest() int {
	found := -1
	for i, r := range m.read {
		if !r.ended && (found < 0 || m.compare(r.last, m.read[found].last) < 0) {
			found = i
		}
	}
	return found
}

// settled are the jobs, in order, before which there can be no other.
func (m *merge) settled() []placedJob {
	slices.SortFunc(m.jobs, func(a, b placedJob) int { return m.compare(a.place, b.place) })
	slowest := m.slowest()
	if slowest < 0 {
		return m.jobs
	}
	last := m.read[slowest].last
	n, _ := slices.BinarySearchFunc(m.jobs, last, func(j placedJob, last store.Place) int {
		if m.compare(j.place, last) <= 0 {
			return -1
		}
		return 1
	})
	return m.jobs[:n]
}

// page has the first of the settled jobs.
func (m *merge) page(limit int) Page {
	settled := m.settled()
	page := Page{Looked: m.looked}
	for _, j := range settled[:min(limit, len(settled))] {
		page.Jobs = append(page.Jobs, j.Job)
	}
	slowest := m.slowest()
	switch {
	case len(settled) > limit || len(settled) == limit && slowest >= 0:
		page.Cursor = cursor{0, settled[limit-1].place}.String()
	case slowest >= 0:
		page.Cursor = cursor{0, m.read[slowest].last}.String()
	}
	return page
}

// compare is below 0 if a comes first: the lower score, and of equal ones the lower ID; of dead letters the higher.
func (m *merge) compare(a, b store.Place) int {
	scoreOf := func(p store.Place) float64 {
		score, _ := strconv.ParseFloat(p.At, 64)
		return score
	}
	order := cmp.Or(cmp.Compare(scoreOf(a), scoreOf(b)), strings.Compare(a.ID, b.ID))
	if m.State == Dead {
		return -order
	}
	return order
}
