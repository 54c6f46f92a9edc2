package inspect

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/mix-basic/delayer/internal/fleet"
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
	// the last hour. Topics may be fewer, see MostTopics and AtLeast.
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

// MostTopics is how many topics of each partition Counts has at most, so that it costs a bounded time.
const MostTopics = 10000

// AtLeast reports whether more topics are known than were counted: then there are at least as many jobs of Topics in all and, of several
// partitions, at least as many topics as are Known.
func (c Counts) AtLeast() bool { return c.Known > len(c.Topics) }

// Counts reads those of all topics or, where a partition knows more than MostTopics, of as many that were used last. It costs Redis about a
// microsecond for each topic of each partition that knows it, and some for one that has anything, whatever the number of jobs.
func (o *Inspector) Counts(ctx context.Context) (Counts, error) {
	return o.countsOfLast(ctx, o.none(), MostTopics)
}

// countsOfLast is Counts of the partitions that have not failed yet, of another number of topics.
func (o *Inspector) countsOfLast(ctx context.Context, failed failures, most int) (Counts, error) {
	known, err := o.known(ctx, failed, most, func(ctx context.Context, s *store.Store) ([]string, int, error) {
		return s.KnownTopics(ctx, most, "")
	})
	if err != nil {
		return Counts{}, fmt.Errorf("counts: %w", err)
	}
	used := known.names
	if known.isCut() {
		used = used[max(len(used)-most, 0):]
	}
	counts, err := o.countsOf(ctx, failed, used, known)
	counts.Known, counts.Used = known.all, used
	return counts, err
}

// CountsOf reads those of some topics.
func (o *Inspector) CountsOf(ctx context.Context, topics ...string) (Counts, error) {
	return o.countsOf(ctx, o.none(), topics, known{})
}

// countsOf is CountsOf of the partitions that have not failed yet. Each is asked for those topics only that it may have.
func (o *Inspector) countsOf(ctx context.Context, failed failures, topics []string, known known) (Counts, error) {
	asked := known.of(topics, len(failed))
	parts, err := gather(ctx, o, failed, func(ctx context.Context, i int, _ *store.Store) (store.Stats, error) {
		return o.fleet.StatsOf(ctx, i, asked[i], true)
	})
	if err != nil {
		return Counts{}, fmt.Errorf("counts: %w", err)
	}
	sum := fleet.NewSum(slices.Sorted(slices.Values(topics)))
	partitions := make([]PartitionCounts, len(parts))
	for i, part := range parts {
		each := &partitions[i]
		if each.Err = failed[i]; each.Err == nil {
			*each = partitionCounts(part)
			sum.Add(part)
		} else {
			each.unknown()
		}
		each.Number, each.Before, each.Node = i, o.fleet.IsOld(i), o.fleet.Stores[i].Node().Addr
	}
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
	Broken    error // names the partitions that can't be read, of which it is not; nil if all can
}

// Overdue reads it of the partitions that can be read. It costs Redis next to nothing.
func (o *Inspector) Overdue(ctx context.Context) (Overdue, error) {
	failed := o.none()
	overdue := make([]time.Duration, len(failed))
	var nodes sync.WaitGroup
	for _, numbers := range o.byNode(ctx, failed) {
		nodes.Go(func() {
			stores := make([]*store.Store, len(numbers))
			for k, i := range numbers {
				stores[k] = o.fleet.Stores[i]
			}
			for k, found := range store.OverdueOf(ctx, stores) {
				overdue[numbers[k]], failed[numbers[k]] = found.For, inTime(ctx, found.Err)
			}
		})
	}
	nodes.Wait()
	if err := failed.all(); err != nil {
		return Overdue{}, fmt.Errorf("overdue: %w", err)
	}
	worst := Overdue{Partition: Unknown}
	for i, late := range overdue {
		if failed[i] == nil && (worst.Partition == Unknown || fleet.Longer(worst.For, late) != worst.For) {
			worst.For, worst.Partition = late, i
		}
	}
	if len(o.fleet.Stores) == 1 {
		worst.Partition = Unknown
	}
	worst.Broken = failed.any()
	return worst, nil
}

// Plus adds numbers; if one is Unknown, so is the sum.
func Plus(a, b int) int { return fleet.Plus(a, b) }
