package dashboard

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/mix-basic/delayer/internal/operator"
	"github.com/mix-basic/delayer/internal/store"
)

const (
	// slightlyLate and tooLate are for how long a job may be due without being moved: a server needs
	// milliseconds, and one that was told nothing of the job a timer_interval.
	slightlyLate = 2 * time.Second
	tooLate      = 10 * time.Second
	// neglected is for how long a ready job may wait for a consumer.
	neglected = time.Minute
)

// status is whether jobs are on time, in a line.
type status struct {
	Level string // ok, warn or bad
	Line  string
	More  []remark // what else is not as it should be
}

// remark is a line of a status, about some topics if it names any.
type remark struct {
	Line   string
	Topics []operator.TopicCounts
	Others int // how many more there are
}

// named is how many topics a remark names.
const named = 5

// statusOf judges a sample.
func (l language) statusOf(s *sample) status {
	st := status{Level: "ok", Line: l.T("status.on_time")}
	isAlive := func(s store.ServerState) bool { return !s.Stale() }
	nobody := s.Beats.Err == nil && !slices.ContainsFunc(s.Beats.List, isAlive)
	switch {
	case s.Overdue < 0:
		st.Level, st.Line = "bad", l.T("status.unreadable")
	case s.Overdue >= tooLate && nobody:
		st.Level, st.Line = "bad", l.T("status.nobody_moves", l.Duration(s.Overdue))
	case s.Overdue >= tooLate:
		st.Level, st.Line = "bad", l.T("status.late", l.Duration(s.Overdue))
	case s.Overdue >= slightlyLate:
		st.Level, st.Line = "warn", l.T("status.slightly_late", l.Duration(s.Overdue))
	case nobody && s.Pool > 0:
		st.Level, st.Line = "warn", l.T("status.no_server")
	}
	if worst := worstOf(s.Partitions); len(s.Partitions) > 1 && (s.Overdue < 0 || s.Overdue >= slightlyLate) {
		st.More = append(st.More, remark{Line: l.T("status.partition", number(worst.Number))})
	}
	if numbers := brokenOf(s.Partitions); len(numbers) > 0 {
		if st.Level == "ok" {
			st.Line = l.T("status.but")
		}
		st.Level = "bad"
		st.More = append(st.More, remark{Line: l.T("status.broken", strings.Join(numbers, ", "))})
	}
	st.names(l.T("status.untagged"), untaggedOf(s.Topics))
	behind, unknown := neglectedOf(s.Topics, s.Pauses)
	st.names(l.T("status.neglected"), behind)
	st.names(l.T("status.unknown"), unknown)
	if late := s.Schedules.Overdue; late >= tooLate {
		st.More = append(st.More, remark{Line: l.T("status.schedule", l.Duration(late))})
	}
	for _, b := range s.Beats.List {
		if b.Error != "" {
			st.More = append(st.More, remark{Line: l.T("status.server_fails", visible(b.Host))})
		}
	}
	if len(st.More) > 0 && st.Level == "ok" {
		st.Level, st.Line = "warn", l.T("status.but")
	}
	return st
}

// names remarks something about topics, if there are any.
func (st *status) names(line string, topics []operator.TopicCounts) {
	if n := min(len(topics), named); n > 0 {
		st.More = append(st.More, remark{line, topics[:n], len(topics) - n})
	}
}

// neglectedOf are the topics whose next job has been ready for long, that for longest first; and those
// of which nobody knows. Where a pause or a limit keeps jobs back that is not the consumers' fault; of jobs that lack a tag untaggedOf tells.
func neglectedOf(topics []operator.TopicCounts, pauses operator.Pauses) (behind, unknown []operator.TopicCounts) {
	for _, t := range topics {
		switch {
		case t.Held > 0, t.Untagged > 0, pauses.Of(t.Topic) != nil:
		case t.AtLeast >= neglected:
			behind = append(behind, t)
		case t.Ready > 0 && t.Overdue < 0:
			t.AtLeast = 0 // which says nothing
			unknown = append(unknown, t)
		}
	}
	slices.SortFunc(behind, func(a, b operator.TopicCounts) int {
		return cmp.Or(cmp.Compare(b.AtLeast, a.AtLeast), cmp.Compare(a.Topic, b.Topic))
	})
	return behind, unknown
}

// untaggedOf are the topics with jobs that nobody will get, those with most first.
func untaggedOf(topics []operator.TopicCounts) (all []operator.TopicCounts) {
	for _, t := range topics {
		if t.Untagged > 0 {
			all = append(all, t)
		}
	}
	slices.SortFunc(all, func(a, b operator.TopicCounts) int {
		return cmp.Or(cmp.Compare(b.Untagged, a.Untagged), cmp.Compare(a.Topic, b.Topic))
	})
	return all
}

// visible is a name within a sentence: short, with all that can't be seen in it spelled out, and
// isolated, so that a name from right to left does not turn the sentence round.
func visible(name string) string {
	const isolate, end = "\u2068", "\u2069"
	text := isolate
	for _, p := range pieces(cut(name, short)) {
		text += p.Text
	}
	return text + end
}
