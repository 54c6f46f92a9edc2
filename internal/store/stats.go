package store

import (
	"context"
	"time"

	"github.com/gomodule/redigo/redis"
)

var statsScript = newScript("stats")

// Stats counts jobs and measures their lateness. -1 stands for values that can't be read, or were not requested.
type Stats struct {
	Time    time.Time // Redis's time; zero if it can't be read, or was not requested
	Pool    int       // jobs in the pool, waiting and reserved
	Waiting int       // approximate number of waiting jobs
	Overdue time.Duration
	Topics  []TopicCounts // the requested ones, in that order

	reserved int // of all topics; -1 if not returned
}

// TopicCounts counts a topic's jobs. -1 stands for values that can't be read.
type TopicCounts struct {
	Topic                 string
	Ready, Reserved, Dead int // Reserved is an estimate: old clients do not count
	// Overdue is the approximate time for which the next job has been ready; 0 without one. For a job that was delivered before it is an
	// upper bound. It is also -1 if that job is not found behind many stale entries, or its bucket does not show it.
	Overdue time.Duration
	// AtLeast is Overdue or, if that is unknown, a lower bound.
	AtLeast   time.Duration
	Limit     Limit
	Throttled int // ready jobs that the limit throttles now
	Slots     int // slots taken of Limit.Concurrency
	// ThrottledUntil is the time from which Limit.Rate lets the next of those start; zero if that is now, or they need a slot.
	ThrottledUntil time.Time
	// Untagged are ready jobs without Limit.Tag that no consumer can reserve, as they are in partitions without a share. Throttled
	// excludes them.
	Untagged int
}

// One script counts up to statsPage topics; fewer if their names exceed statsBytes, or too many of them have jobs.
const statsPage, statsBytes = 500, 64 << 10

// Stats counts the jobs, in all and of the topics; with late it also measures their lateness.
func (s *Store) Stats(ctx context.Context, topics []string, late bool) (Stats, error) {
	all := Stats{Topics: make([]TopicCounts, 0, len(topics))}
	reserved := -1
	for begins, rest := true, topics; begins || len(rest) > 0; begins = false {
		page, err := s.statsPage(forOneScript(rest), late, begins).Do(ctx)
		if err != nil {
			return Stats{}, err
		}
		rest = rest[len(page.Topics):]
		reserved = max(reserved, page.reserved)
		page.Topics = append(all.Topics, page.Topics...)
		all = page
	}
	if reserved < 0 { // too many topics have some, or this user may not add them up
		reserved = 0
		for _, t := range all.Topics {
			reserved += max(t.Reserved, 0)
		}
	}
	all.Waiting = max(all.Pool-reserved, 0)
	return all, nil
}

// forOneScript returns the topics of the next script, at least one if there is any.
func forOneScript(topics []string) []string {
	n, bytes := 0, 0
	for n < min(len(topics), statsPage) && (n == 0 || bytes+len(topics[n]) <= statsBytes) {
		bytes += len(topics[n])
		n++
	}
	return topics[:n]
}

// statsPage counts the jobs of the first of these topics, at least one; with reserved also the reserved jobs of all topics.
func (s *Store) statsPage(topics []string, late, reserved bool) *Call[Stats] {
	args := append(arguments(2+len(topics), s.jobPool, s.keys.Reserved()), "", "")
	if late {
		args[len(args)-2] = "late"
	}
	if reserved {
		args[len(args)-1] = "reserved"
	}
	return newCall(s, statsScript, appendAll(args, topics), func(reply any) (Stats, error) {
		return statsOf(reply, topics)
	})
}

func statsOf(reply any, topics []string) (s Stats, err error) {
	var now, overdue int64
	var counted int
	rest, err := scan(reply, &now, &s.Pool, &overdue, &s.reserved, &counted)
	if err != nil || counted > len(topics) || counted == 0 && len(topics) > 0 {
		return Stats{}, errUnreadable
	}
	if now >= 0 {
		s.Time = time.UnixMicro(now)
	}
	s.Overdue = optional(overdue)
	s.Topics = make([]TopicCounts, counted)
	for i := range s.Topics {
		t := &s.Topics[i]
		if t.Topic = topics[i]; now < 0 {
			t.Overdue, t.AtLeast = -1, -1
		}
	}
	for len(rest) > 0 {
		var place, sure int
		var found TopicCounts
		if rest, err = redis.Scan(rest, &place, &found.Ready, &found.Reserved, &found.Dead, &overdue, &sure); err != nil || place < 1 || place > counted || len(rest) == 0 {
			return Stats{}, errUnreadable
		}
		if err = found.readLimit(rest[0]); err != nil {
			return Stats{}, err
		}
		rest = rest[1:]
		found.Topic, found.Overdue, found.AtLeast = topics[place-1], optional(overdue), optional(overdue)
		if sure == 0 {
			found.Overdue = -1
		}
		s.Topics[place-1] = found
	}
	return s, nil
}

// Overdue returns Stats.Overdue: the time for which the first job has been due, 0 if none is, -1 if that can't be read.
func (s *Store) Overdue() *Call[time.Duration] {
	c := s.statsPage(nil, true, false)
	return &Call[time.Duration]{c.run, func(reply any) (time.Duration, error) {
		stats, err := c.read(reply)
		return stats.Overdue, err
	}}
}

// readLimit reads stats.lua's part about the topic's limit.
func (t *TopicCounts) readLimit(reply any) error {
	list, limited := reply.([]any)
	if !limited {
		return nil
	}
	var text string
	var next int64
	_, err := redis.Scan(list, &text, &t.Throttled, &t.Slots, &next)
	t.ThrottledUntil = milliTime(next)
	if err == nil {
		t.Limit, err = readLimit(text)
	}
	return err
}
