package dashboard

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/mix-basic/delayer/internal/inspect"
	"github.com/mix-basic/delayer/internal/store"
)

const (
	// slightlyLate and tooLate are how long a job may be due without being moved. Servers need milliseconds,
	// or a timer_interval for a job they were not told about.
	slightlyLate = 2 * time.Second
	tooLate      = 10 * time.Second
	// neglected is how long a ready job may wait for a consumer.
	neglected = time.Minute
)

// status is the line that says whether jobs are on time.
type status struct {
	Level string // ok, warn or bad
	Line  string
	More  []remark // further problems
}

// remark is a line of the status, perhaps about some topics.
type remark struct {
	Line   string
	Topics []inspect.TopicCounts
}

// statusOf judges the state.
func (l language) statusOf(s *state) status {
	st := status{Level: "ok", Line: l.T("status.on_time")}
	isAlive := func(s store.ServerState) bool { return !s.Stale() }
	nobody := s.ServersErr == nil && !slices.ContainsFunc(s.Servers, isAlive)
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
		l.worsen(&st, "bad")
		st.More = append(st.More, remark{Line: l.T("status.broken", strings.Join(numbers, ", "))})
	}
	st.names(l.T("status.untagged"), untaggedOf(s.Topics))
	behind, unknown := neglectedOf(s.Topics, s.Pauses)
	alone, slow := s.divide(behind)
	st.names(l.T("status.alone"), alone)
	st.names(l.T("status.neglected"), slow)
	st.names(l.T("status.unknown"), unknown)
	if late := s.Schedules.Overdue; late >= tooLate {
		st.More = append(st.More, remark{Line: l.T("status.schedule", l.Duration(late))})
	}
	for _, b := range s.Servers {
		if b.Error != "" {
			st.More = append(st.More, remark{Line: l.T("status.server_fails", visible(b.Host))})
		}
	}
	if len(st.More) > 0 {
		l.worsen(&st, "warn")
	}
	return st
}

// worsen lowers the level; what was on time still is.
func (l language) worsen(st *status, level string) {
	if st.Level == "ok" {
		st.Level, st.Line = level, l.T("status.but")
	} else if level == "bad" {
		st.Level = level
	}
}

// names adds a remark about topics, if there are any.
func (st *status) names(line string, topics []inspect.TopicCounts) {
	if len(topics) > 0 {
		st.More = append(st.More, remark{line, topics})
	}
}

// neglectedOf returns the topics whose next job has been ready for long, longest first, and those for which
// that is unknown. It skips paused and throttled topics, whose consumers are not at fault; see untaggedOf for
// jobs without their limit's tag.
func neglectedOf(topics []inspect.TopicCounts, pauses inspect.Pauses) (behind, unknown []inspect.TopicCounts) {
	for _, t := range topics {
		switch {
		case pauses.Block(t):
		case t.AtLeast >= neglected:
			behind = append(behind, t)
		case t.Ready > 0 && t.Overdue < 0:
			t.AtLeast = 0 // not a useful bound
			unknown = append(unknown, t)
		}
	}
	largestFirst(behind, func(t inspect.TopicCounts) int64 { return int64(t.AtLeast) })
	return behind, unknown
}

func largestFirst(topics []inspect.TopicCounts, by func(inspect.TopicCounts) int64) {
	slices.SortFunc(topics, func(a, b inspect.TopicCounts) int {
		return cmp.Or(cmp.Compare(by(b), by(a)), cmp.Compare(a.Topic, b.Topic))
	})
}

// untaggedOf returns the topics with undeliverable jobs, those with most first.
func untaggedOf(topics []inspect.TopicCounts) []inspect.TopicCounts {
	untagged := slices.DeleteFunc(slices.Clone(topics), func(t inspect.TopicCounts) bool { return t.Untagged <= 0 })
	largestFirst(untagged, func(t inspect.TopicCounts) int64 { return int64(t.Untagged) })
	return untagged
}

// isAlone reports whether the topic seems to have no consumer: none waits or has a job. A client that pops
// while there are jobs goes unnoticed.
func isAlone(t inspect.TopicCounts, listening int) bool { return listening == 0 && t.Reserved == 0 }

// divide splits the topics into those without consumers and those with slow ones, or where that is unknown.
func (s *state) divide(topics []inspect.TopicCounts) (alone, slow []inspect.TopicCounts) {
	for _, t := range topics {
		if listening, known := s.Listening[t.Topic]; known && isAlone(t, listening) {
			alone = append(alone, t)
		} else {
			slow = append(slow, t)
		}
	}
	return alone, slow
}

// visible formats a name within a sentence: short, with invisible characters spelled out, and isolated so
// that a right-to-left name does not reorder the sentence.
func visible(name string) string {
	const isolate, end = "\u2068", "\u2069"
	text := isolate
	for _, p := range pieces(cut(name, short)) {
		text += p.Text
	}
	return text + end
}

// maxPartitions is how many partitions the overview shows.
const maxPartitions = 64

// partitionTable is the overview's table of partitions, if there are several.
type partitionTable struct {
	Rows    []inspect.Partition // in order
	Others  int                 // number of partitions not shown, none later than these
	InNodes bool                // there is a cluster
}

// partitionsOf returns the table, or nil for a single partition.
func partitionsOf(s *state) *partitionTable {
	if len(s.Partitions) <= 1 {
		return nil
	}
	all := inspect.WithMovers(s.Partitions, s.Servers)
	slices.SortStableFunc(all, func(a, b inspect.Partition) int { return latestFirst(a.PartitionCounts, b.PartitionCounts) })
	shown := all[:min(len(all), maxPartitions)]
	slices.SortFunc(shown, func(a, b inspect.Partition) int { return cmp.Compare(a.Number, b.Number) })
	return &partitionTable{shown, len(all) - len(shown), slices.ContainsFunc(shown, func(p inspect.Partition) bool { return p.Node != "" })}
}

// latestFirst orders partitions by lateness, unknown ones first.
func latestFirst(a, b inspect.PartitionCounts) int {
	unknown := func(p inspect.PartitionCounts) int { return int(min(p.Overdue, 0)) }
	return cmp.Or(cmp.Compare(unknown(a), unknown(b)), cmp.Compare(b.Overdue, a.Overdue))
}

// worstOf returns the latest readable partition, or the zero value.
func worstOf(counts []inspect.PartitionCounts) (worst inspect.PartitionCounts) {
	counts = slices.DeleteFunc(slices.Clone(counts), func(p inspect.PartitionCounts) bool { return p.Err != nil })
	if len(counts) > 0 {
		worst = slices.MinFunc(counts, latestFirst)
	}
	return worst
}

func brokenOf(counts []inspect.PartitionCounts) (numbers []string) {
	for _, p := range counts {
		if p.Err != nil {
			numbers = append(numbers, number(p.Number))
		}
	}
	return numbers
}
