package dashboard

import (
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
	More  []string // what else is not as it should be
}

// statusOf judges a sample.
func (l language) statusOf(s *sample) status {
	st := status{Level: "ok", Line: l.text("status.on_time")}
	worse := func(level, line string) {
		st.Level, st.Line = level, line
	}
	nobody := s.Beats.alive() == 0 && s.Beats.Err == nil
	switch {
	case s.Overdue < 0:
		worse("bad", l.text("status.unreadable"))
	case s.Overdue >= tooLate && nobody:
		worse("bad", l.text("status.nobody_moves", l.duration(s.Overdue)))
	case s.Overdue >= tooLate:
		worse("bad", l.text("status.late", l.duration(s.Overdue)))
	case s.Overdue >= slightlyLate:
		worse("warn", l.text("status.slightly_late", l.duration(s.Overdue)))
	case nobody && s.Pool > 0:
		worse("warn", l.text("status.no_server"))
	}
	warn := func(line string) {
		if st.Level == "ok" {
			st.Level, st.Line = "warn", l.text("status.but")
		}
		st.More = append(st.More, line)
	}
	if oldest := mostNeglected(s.Topics); oldest.AtLeast >= neglected {
		warn(l.text("status.neglected", visible(oldest.Topic), l.duration(oldest.AtLeast)))
	} else if i := slices.IndexFunc(s.Topics, isOverdueUnknown); i >= 0 {
		warn(l.text("status.unknown", visible(s.Topics[i].Topic)))
	}
	for _, b := range s.Beats.List {
		if b.Error != "" {
			warn(l.text("status.server_fails", visible(b.Host)))
		}
	}
	return st
}

// mostNeglected is the topic whose next job has been ready for longest.
func mostNeglected(topics []operator.TopicCounts) (oldest operator.TopicCounts) {
	for _, t := range topics {
		if t.AtLeast > oldest.AtLeast {
			oldest = t
		}
	}
	return oldest
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
