package operator

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mix-basic/delayer/internal/store"
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
	// Partitions are the numbers of each partition, in their order.
	Partitions []PartitionCounts
	// Used are their names in the order in which they were used, the latest last, if that was asked for.
	Used []string
}

// TopicCounts are how many jobs a topic has. A number that can't be read is Unknown.
type TopicCounts = store.TopicCounts

// MostTopics is how many topics Counts has at most, so that it costs a bounded time.
const MostTopics = 10000

// Counts reads those of the topics that were used last, MostTopics at most. It costs Redis some
// microseconds a topic, whatever the number of jobs.
func (o *Operator) Counts(ctx context.Context) (Counts, error) {
	return o.CountsOfLast(ctx, MostTopics)
}

// CountsOfLast is Counts of another number of topics at most.
func (o *Operator) CountsOfLast(ctx context.Context, most int) (Counts, error) {
	topics, all, err := o.partitions.KnownTopics(ctx, most, "")
	if err != nil {
		return Counts{}, fmt.Errorf("counts: %w", err)
	}
	counts, err := o.CountsOf(ctx, topics...)
	counts.Known, counts.Used = all, topics
	return counts, err
}

// Overdue is that of Counts, and of which partition; Partition is Unknown where there is one only.
type Overdue struct {
	For       time.Duration
	Partition int
}

// Overdue reads it. It costs Redis next to nothing.
func (o *Operator) Overdue(ctx context.Context) (Overdue, error) {
	longest, partition, err := o.partitions.Overdue(ctx)
	if err != nil {
		return Overdue{}, fmt.Errorf("overdue: %w", err)
	}
	if len(o.partitions) == 1 {
		partition = Unknown
	}
	return Overdue{longest, partition}, nil
}

// CountsOf reads those of some topics.
func (o *Operator) CountsOf(ctx context.Context, topics ...string) (Counts, error) {
	all, each, err := o.partitions.Stats(ctx, topics, true)
	if err != nil {
		return Counts{}, fmt.Errorf("counts: %w", err)
	}
	slices.SortFunc(all.Topics, func(a, b TopicCounts) int { return strings.Compare(a.Topic, b.Topic) })
	return Counts{Time: all.Time, Pool: all.Pool, Waiting: all.Waiting, Overdue: all.Overdue, Topics: all.Topics, Partitions: each}, nil
}

// Plus adds numbers; if one is Unknown, so is the sum.
func Plus(a, b int) int { return store.Plus(a, b) }
