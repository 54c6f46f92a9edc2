package dashboard

import (
	"cmp"
	"slices"
	"time"

	"github.com/mix-basic/delayer/internal/operator"
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
	Topics []late
	Others int // how many more there are
}

// late is a topic, and for how long its next job has been ready.
type late struct {
	Topic string
	For   time.Duration // 0 if that is not known
}

// named is how many topics a remark names.
const named = 5

// statusOf judges a sample.
func (l language) statusOf(s *sample) status {
	st := status{Level: "ok", Line: l.T("status.on_time")}
	worse := func(level, line string) {
		st.Level, st.Line = level, line
	}
	nobody := s.Beats.alive() == 0 && s.Beats.Err == nil
	switch {
	case s.Overdue < 0:
		worse("bad", l.T("status.unreadable"))
	case s.Overdue >= tooLate && nobody:
		worse("bad", l.T("status.nobody_moves", l.Duration(s.Overdue)))
	case s.Overdue >= tooLate:
		worse("bad", l.T("status.late", l.Duration(s.Overdue)))
	case s.Overdue >= slightlyLate:
		worse("warn", l.T("status.slightly_late", l.Duration(s.Overdue)))
	case nobody && s.Pool > 0:
		worse("warn", l.T("status.no_server"))
	}
	warn := func(r remark) {
		if st.Level == "ok" {
			st.Level, st.Line = "warn", l.T("status.but")
		}
		st.More = append(st.More, r)
	}
	behind, unknown := neglectedOf(s.Topics)
	if len(behind) > 0 {
		warn(remarkOf(l.T("status.neglected"), behind))
	}
	if len(unknown) > 0 {
		warn(remarkOf(l.T("status.unknown"), unknown))
	}
	for _, b := range s.Beats.List {
		if b.Error != "" {
			warn(remark{Line: l.T("status.server_fails", visible(b.Host))})
		}
	}
	return st
}

func remarkOf(line string, topics []late) remark {
	n := min(len(topics), named)
	return remark{line, topics[:n], len(topics) - n}
}

// neglectedOf are the topics whose next job has been ready for long, that for longest first; and those
// of which nobody knows.
func neglectedOf(topics []operator.TopicCounts) (behind, unknown []late) {
	for _, t := range topics {
		switch {
		case t.AtLeast >= neglected:
			behind = append(behind, late{t.Topic, t.AtLeast})
		case isOverdueUnknown(t):
			unknown = append(unknown, late{t.Topic, 0})
		}
	}
	slices.SortFunc(behind, func(a, b late) int { return cmp.Or(cmp.Compare(b.For, a.For), cmp.Compare(a.Topic, b.Topic)) })
	return behind, unknown
}

// isOverdueUnknown reports whether nobody knows for how long the topic's next job has been ready.
func isOverdueUnknown(t operator.TopicCounts) bool { return t.Ready > 0 && t.Overdue < 0 }

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
