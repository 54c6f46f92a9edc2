package operator

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mix-basic/delayer/internal/store"
)

// Unknown is a number, or a duration, that can't be read: this Redis user may not, or the key
// is broken.
const Unknown = -1

// Counts are how many jobs there are, and how late. A number that can't be read is Unknown. Of several partitions of which some can't
// be read at all they are those of the others.
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
	failed := make(failures, len(o.partitions))
	topics, all, err := o.names(ctx, failed, most, func(ctx context.Context, s *store.Store) ([]string, int, error) {
		return s.KnownTopics(ctx, most, "")
	})
	if err != nil {
		return Counts{}, fmt.Errorf("counts: %w", err)
	}
	counts, err := o.countsOf(ctx, failed, topics)
	counts.Known, counts.Used = all, topics
	return counts, err
}

// CountsOf reads those of some topics.
func (o *Operator) CountsOf(ctx context.Context, topics ...string) (Counts, error) {
	return o.countsOf(ctx, make(failures, len(o.partitions)), topics)
}

// countsOf is CountsOf of the partitions that have not failed yet.
func (o *Operator) countsOf(ctx context.Context, failed failures, topics []string) (Counts, error) {
	parts := make([]store.Stats, len(o.partitions))
	o.each(ctx, failed, func(ctx context.Context, i int, s *store.Store) (err error) {
		parts[i], err = s.Stats(ctx, topics, true)
		return err
	})
	if err := failed.all(); err != nil {
		return Counts{}, fmt.Errorf("counts: %w", err)
	}
	sum := store.Stats{Topics: make([]TopicCounts, len(topics))}
	for i, topic := range topics {
		sum.Topics[i] = TopicCounts{Topic: topic, AtLeast: Unknown}
	}
	partitions := make([]PartitionCounts, len(parts))
	for i, part := range parts {
		each := &partitions[i]
		if each.Err = failed[i]; each.Err == nil {
			*each = partitionCounts(part)
			sum.Add(part)
		} else {
			each.unknown()
		}
		each.Number, each.Before, each.Node = i, o.partitions.IsBefore(i), o.partitions[i].NodeAddr()
	}
	slices.SortFunc(sum.Topics, func(a, b TopicCounts) int { return strings.Compare(a.Topic, b.Topic) })
	return Counts{Time: sum.Time, Pool: sum.Pool, Waiting: sum.Waiting, Overdue: sum.Overdue, Topics: sum.Topics, Partitions: partitions}, nil
}

// Broken is why some of several partitions can't be read, in a line that names them; nil if all can.
func (c Counts) Broken() error {
	failed := make(failures, len(c.Partitions))
	for i, p := range c.Partitions {
		failed[i] = p.Err
	}
	return failed.any()
}

// Overdue is that of Counts, and of which partition; Partition is Unknown where there is one only.
type Overdue struct {
	For       time.Duration
	Partition int
}

// Overdue reads it. It costs Redis next to nothing. With an error, which names the partitions that can't be read, it is
// that of the others.
func (o *Operator) Overdue(ctx context.Context) (Overdue, error) {
	failed := make(failures, len(o.partitions))
	overdue := make([]time.Duration, len(failed))
	var nodes sync.WaitGroup
	for _, numbers := range o.byNode(failed) {
		nodes.Go(func() {
			stores := make([]*store.Store, len(numbers))
			for k, i := range numbers {
				stores[k] = o.partitions[i]
			}
			for k, found := range store.OverdueOf(ctx, stores) {
				overdue[numbers[k]], failed[numbers[k]] = found.For, inTime(ctx, found.Err)
			}
		})
	}
	nodes.Wait()
	worst := Overdue{Partition: Unknown}
	for i, late := range overdue {
		if failed[i] == nil && (worst.Partition == Unknown || store.Longer(worst.For, late) != worst.For) {
			worst = Overdue{late, i}
		}
	}
	if len(o.partitions) == 1 {
		worst.Partition = Unknown
	}
	if err := failed.any(); err != nil {
		return worst, fmt.Errorf("overdue: %w", err)
	}
	return worst, nil
}

// Plus adds numbers; if one is Unknown, so is the sum.
func Plus(a, b int) int { return store.Plus(a, b) }
