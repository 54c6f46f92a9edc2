package inspect

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"iter"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/mix-basic/delayer/internal/store"
)

// The states of a job.
const (
	Waiting  = "waiting"
	Ready    = "ready"
	Reserved = "reserved"
	Dead     = "dead"
)

// MaxPage is the most jobs of a Page.
const MaxPage = 500

// Query selects the jobs to browse.
type Query struct {
	Topic string // empty means all topics, for waiting and reserved jobs
	State string // Waiting, Ready, Reserved or Dead
	// Limit is the most jobs of a page, up to MaxPage; 0 means 50.
	Limit int
	// Cursor is the previous page's Cursor; empty for the first page.
	Cursor string
	Whole  bool // bodies, errors and reasons are read whole
}

// Page is some jobs in order: ready jobs by their turn, one partition after the other; waiting
// jobs by due time; reserved jobs by the end of their leases; dead ones the newest first.
type Page struct {
	Jobs []Job
	// Looked is how many entries were examined. A page may have few jobs, or none,
	// although there are more, because it ends after some thousand entries.
	Looked int
	// Cursor is where the next page begins, whatever comes and goes meanwhile; empty at
	// the end.
	Cursor string
}

// Job is a job on a Page. It has up to 256 bytes of the body, and nothing of a body above 1 MiB;
// its error and its reason have up to 1 KiB.
type Job = store.Summary

const (
	// browseStep is how many entries one script examines, browseSteps the most scripts
	// for a Page.
	browseStep, browseSteps = 250, 16
	// preview is how many bytes of a body are shown.
	preview = 256
)

// ErrCursor is returned for a cursor that Browse did not make.
var ErrCursor = errors.New("cursor is none that an earlier page has given")

// Browse reads a page of jobs.
func (o *Inspector) Browse(ctx context.Context, q Query) (Page, error) {
	page, err := o.browse(ctx, q)
	if err != nil {
		return Page{}, fmt.Errorf("list jobs: %w", err)
	}
	return page, nil
}

// All iterates over the jobs of all pages from the query's Cursor on. It stops at an error.
func (o *Inspector) All(ctx context.Context, q Query) iter.Seq2[Job, error] {
	q.Limit = MaxPage
	return func(yield func(Job, error) bool) {
		for more := true; more; more = q.Cursor != "" {
			page, err := o.Browse(ctx, q)
			if err != nil {
				yield(Job{}, err)
				return
			}
			for _, job := range page.Jobs {
				if !yield(job, nil) {
					return
				}
			}
			q.Cursor = page.Cursor
		}
	}
}

func (o *Inspector) browse(ctx context.Context, q Query) (Page, error) {
	switch {
	case q.State != Waiting && q.State != Reserved && q.State != Ready && q.State != Dead:
		return Page{}, fmt.Errorf("state %.200q is not %s, %s, %s or %s", q.State, Waiting, Ready, Reserved, Dead)
	case q.Topic == "" && (q.State == Ready || q.State == Dead):
		return Page{}, fmt.Errorf("topic is empty; jobs that are %s are seen topic by topic", q.State)
	case q.Limit < 0 || q.Limit > MaxPage:
		return Page{}, fmt.Errorf("limit %d is not from 0 to %d", q.Limit, MaxPage)
	}
	limit := q.Limit
	if limit == 0 {
		limit = 50
	}
	at, err := parseCursor(q.Cursor, q.State, len(o.fleet.Stores))
	if err != nil {
		return Page{}, err
	}
	if len(o.fleet.Stores) > 1 && q.State != Ready {
		return o.browseMerged(ctx, q, limit, at.Position)
	}
	var page Page
	for range browseSteps {
		found, err := o.fleet.Stores[at.partition].Browse(ctx, store.Browse{
			Topic: q.Topic, State: q.State, Jobs: limit - len(page.Jobs), Entries: browseStep, Preview: preview, Whole: q.Whole, After: at.Position,
		})
		if err != nil {
			return Page{}, err
		}
		page.Looked += found.Read
		page.Jobs = append(page.Jobs, found.Jobs...)
		if at.Position = found.Last; at.Position == (store.Position{}) {
			if at.partition++; at.partition == len(o.fleet.Stores) {
				return page, nil
			}
		}
		if len(page.Jobs) == limit {
			break
		}
	}
	page.Cursor = at.String()
	return page, nil
}

// browseMerged reads a page of all partitions in one order, behind a place of any of them. Each partition
// is read at least once, and then the one that holds up the others, at most browseSteps times.
func (o *Inspector) browseMerged(ctx context.Context, q Query, limit int, after store.Position) (Page, error) {
	n := len(o.fleet.Stores)
	r := o.fleet.Read(store.Browse{
		Topic: q.Topic, State: q.State, Jobs: min(limit, max(2*limit/n, 10)), Entries: browseStep, Preview: preview, Whole: q.Whole, After: after,
	})
	for step := 0; step < n || step < n+browseSteps && len(r.Settled()) < limit; step++ {
		if more, err := r.More(ctx); err != nil {
			return Page{}, err
		} else if !more {
			break
		}
	}
	page, settled := Page{Looked: r.Looked}, r.Settled()
	for _, job := range settled[:min(limit, len(settled))] {
		page.Jobs = append(page.Jobs, job.Summary)
	}
	switch at, more := r.At(); {
	case len(settled) > limit || len(settled) == limit && more:
		page.Cursor = cursor{0, settled[limit-1].Place}.String()
	case more:
		page.Cursor = cursor{0, at}.String()
	}
	return page, nil
}

// Glob returns a function that reports whether a text matches the pattern: * stands for any text, ? for one character.
// An empty pattern matches all.
func Glob(pattern string) func(string) bool {
	return func(text string) bool { return pattern == "" || matches(pattern, text) }
}

// matches is not a regular expression, which would take different bytes that are not UTF-8 for the same.
func matches(pattern, text string) bool {
	starred, behind, from := false, "", "" // the rest of the pattern behind the last *, and of the text that it is tried on
	for pattern != "" || text != "" {
		_, character := utf8.DecodeRuneInString(text)
		switch {
		case strings.HasPrefix(pattern, "*"):
			starred, behind, from = true, pattern[1:], text
			pattern = behind
		case text != "" && strings.HasPrefix(pattern, "?"):
			pattern, text = pattern[1:], text[character:]
		case text != "" && strings.HasPrefix(pattern, text[:1]):
			pattern, text = pattern[1:], text[1:]
		case !starred || from == "":
			return false
		default: // the * stands for one more character
			_, character = utf8.DecodeRuneInString(from)
			from = from[character:]
			pattern, text = behind, from
		}
	}
	return true
}

// cursor is where a page ends.
type cursor struct {
	partition int
	store.Position
}

// String returns the cursor in the form of a Page.
func (c cursor) String() string {
	return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%d %s %s", c.partition, c.At, c.ID))
}

func parseCursor(text, state string, partitions int) (cursor, error) {
	if text == "" {
		return cursor{}, nil
	}
	plain, err := base64.RawURLEncoding.DecodeString(text)
	parts := strings.SplitN(string(plain), " ", 3)
	if err != nil || len(parts) < 3 {
		return cursor{}, ErrCursor
	}
	partition, err := strconv.Atoi(parts[0])
	if err != nil || partition < 0 || partition >= partitions {
		return cursor{}, ErrCursor
	}
	c := cursor{partition, store.Position{At: parts[1], ID: parts[2]}}
	if c.Position == (store.Position{}) {
		return c, nil // the partition's beginning
	}
	if state == Ready {
		if n, err := strconv.ParseUint(c.At, 10, 48); err != nil || strconv.FormatUint(n, 10) != c.At {
			return cursor{}, ErrCursor
		}
		return c, nil
	}
	if score, err := strconv.ParseFloat(c.At, 64); err != nil || math.IsNaN(score) || strings.Contains(c.At, "_") {
		return cursor{}, ErrCursor
	}
	return c, nil
}
