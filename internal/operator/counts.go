package operator

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Unknown is a number, or a duration, that can't be read: this Redis user may not, or the key
// is broken.
const Unknown = -1

// Counts are how many jobs there are, and how late. A number that can't be read is Unknown.
type Counts struct {
	// Time is Redis's; zero if it can't be read.
	Time time.Time
	// Pool is how many jobs are in the pool: those that wait, and those that are reserved.
	Pool int
	// Waiting is how many wait, about: Pool without those that are reserved.
	Waiting int
	// Overdue is for how long the pool's first job has been due, or the first lease has been
	// over, without being moved; 0 if there is none.
	Overdue time.Duration
	// Known is how many topics are known: they have jobs or dead letters, or had some within about
	// the last hour. Topics may be fewer, see MostTopics.
	Known int
	// Topics are those that were asked for, by name.
	Topics []TopicCounts
	// Used are their names in the order in which they were used, the latest last, if that was asked for.
	Used []string
}

// TopicCounts are how many jobs a topic has. A number that can't be read is Unknown.
type TopicCounts struct {
	Topic string
	Ready int
	// Reserved is about how many are reserved, see client.TopicStats.
	Reserved int
	Dead     int
	// Overdue is for how long the next job has been ready, about; 0 if none is. Of one that
	// was delivered before it is the most that it can be. It is Unknown also where that job is not
	// found, behind many entries whose jobs are gone, or doesn't say it.
	Overdue time.Duration
	// AtLeast is Overdue, or, where that is not known, the least that it can be.
	AtLeast time.Duration
}

// MostTopics is how many topics Counts has at most, so that it costs a bounded time.
const MostTopics = 10000

// Counts reads those of the topics that were used last, MostTopics at most. It costs Redis some
// microseconds a topic, whatever the number of jobs.
func (o *Operator) Counts(ctx context.Context) (Counts, error) {
	return o.CountsOfLast(ctx, MostTopics)
}

// CountsOfLast is Counts of another number of topics at most.
func (o *Operator) CountsOfLast(ctx context.Context, most int) (Counts, error) {
	topics, all, err := o.known(ctx, most, "")
	if err != nil {
		return Counts{}, fmt.Errorf("counts: %w", err)
	}
	counts, err := o.CountsOf(ctx, topics...)
	counts.Known, counts.Used = all, topics
	return counts, err
}

// Overdue is that of Counts. It costs Redis next to nothing.
func (o *Operator) Overdue(ctx context.Context) (time.Duration, error) {
	all := time.Duration(0)
	for _, partition := range o.partitions {
		part, err := partition.Overdue(ctx)
		if err != nil {
			return 0, fmt.Errorf("overdue: %w", err)
		}
		all = latest(all, part)
	}
	return all, nil
}

// CountsOf reads those of some topics.
func (o *Operator) CountsOf(ctx context.Context, topics ...string) (Counts, error) {
	var all Counts
	for _, partition := range o.partitions {
		part, err := partition.Stats(ctx, topics, true)
		if err != nil {
			return Counts{}, fmt.Errorf("counts: %w", err)
		}
		all.Time = part.Time
		all.Pool += part.Pool
		all.Waiting += part.Waiting
		all.Overdue = latest(all.Overdue, part.Overdue)
		for _, t := range part.Topics {
			all.Topics = append(all.Topics, TopicCounts(t))
		}
	}
	all.Topics = joined(all.Topics)
	return all, nil
}

// joined has what stands there of a topic, once for each partition, in one.
func joined(all []TopicCounts) []TopicCounts {
	slices.SortFunc(all, func(a, b TopicCounts) int { return strings.Compare(a.Topic, b.Topic) })
	n := 0
	for _, t := range all {
		if n == 0 || all[n-1].Topic != t.Topic {
			all[n], n = t, n+1
			continue
		}
		sum := &all[n-1]
		sum.Ready, sum.Reserved, sum.Dead = Plus(sum.Ready, t.Ready), Plus(sum.Reserved, t.Reserved), Plus(sum.Dead, t.Dead)
		sum.Overdue, sum.AtLeast = latest(sum.Overdue, t.Overdue), max(sum.AtLeast, t.AtLeast)
	}
	return all[:n]
}

// Plus adds numbers; if one is Unknown, so is the sum.
func Plus(a, b int) int {
	if a < 0 || b < 0 {
		return Unknown
	}
	return a + b
}

func latest(a, b time.Duration) time.Duration {
	if a < 0 || b < 0 {
		return Unknown
	}
	return max(a, b)
}
