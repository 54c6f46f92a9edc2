package fleet

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/mix-basic/delayer/internal/store"
)

// Reader reads the jobs of all partitions in one order, by score and ID. It always reads a page of the partition that it has read
// least far, because that one holds up the others.
type Reader struct {
	Looked int // entries
	parts  []*partReader
	newest bool    // the highest score comes first
	found  []Found // but not taken
}

// Found is a job, and where a Reader has found it.
type Found struct {
	store.Summary
	*store.Store
	Place store.Position
}

type partReader struct {
	*store.Store
	next  store.Browse             // page, behind what was read
	ends  func(store.Summary) bool // reports the first job behind the selected ones; nil selects all
	begun bool                     // a page was read
	ended bool
}

// Read returns a Reader of what q selects, in each partition from q.After on. It does not call Redis yet.
func (f *Fleet) Read(q store.Browse) *Reader {
	r := &Reader{newest: q.State == "dead" && !q.Oldest}
	for _, s := range f.Stores {
		r.parts = append(r.parts, &partReader{Store: s, next: q})
	}
	return r
}

// More reads a page, and returns false if everything was read.
func (r *Reader) More(ctx context.Context) (bool, error) {
	p := r.leastRead()
	if p == nil {
		return false, nil
	}
	page, err := p.Browse(ctx, p.next)
	if err != nil {
		return false, err
	}
	r.Looked += page.Read
	p.next.After, p.begun, p.ended = page.Last, true, page.Last == store.Position{}
	for i, job := range page.Jobs {
		if p.ends != nil && p.ends(job) {
			p.ended = true
			break
		}
		r.found = append(r.found, Found{job, p.Store, page.Positions[i]})
	}
	slices.SortStableFunc(r.found, func(a, b Found) int { return r.compare(a.Place, b.Place) })
	return true, nil
}

// Settled returns the jobs, in order, that no unread job can precede.
func (r *Reader) Settled() []Found {
	p := r.leastRead()
	switch {
	case p == nil:
		return r.found
	case !p.begun:
		return nil
	}
	n := slices.IndexFunc(r.found, func(f Found) bool { return r.compare(f.Place, p.next.After) > 0 })
	if n < 0 {
		return r.found
	}
	return r.found[:n]
}

// Take takes the settled jobs.
func (r *Reader) Take() []Found {
	settled := r.Settled()
	r.found = r.found[len(settled):]
	return settled
}

// At returns up to where all partitions were read, and whether there is more.
func (r *Reader) At() (at store.Position, more bool) {
	if p := r.leastRead(); p != nil {
		return p.next.After, true
	}
	return store.Position{}, false
}

func (r *Reader) leastRead() (least *partReader) {
	for _, p := range r.parts {
		switch {
		case p.ended:
		case !p.begun:
			return p
		case least == nil || r.compare(p.next.After, least.next.After) < 0:
			least = p
		}
	}
	return least
}

// compare returns less than 0 if a comes first: the lower score, then the lower ID; reversed if the newest comes first.
func (r *Reader) compare(a, b store.Position) int {
	first, _ := strconv.ParseFloat(a.At, 64)
	second, _ := strconv.ParseFloat(b.At, 64)
	order := cmp.Or(cmp.Compare(first, second), strings.Compare(a.ID, b.ID))
	if r.newest {
		return -order
	}
	return order
}
