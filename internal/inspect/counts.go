package inspect

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/mix-basic/delayer/internal/fleet"
	"github.com/mix-basic/delayer/internal/store"
)

// Unknown is a number or duration that cannot be read, because this Redis user may not read it or the key
// is broken.
const Unknown = -1

// Counts are the numbers of jobs, and how late they are. A number that cannot be read is Unknown. If some of several partitions
// cannot be read at all, only the others count.
type Counts struct {
	// Time is Redis's clock; zero if it cannot be read.
	Time time.Time
	// Pool is how many jobs are in the pool: waiting and reserved ones.
	Pool int
	// Waiting is roughly how many wait: Pool without the reserved ones.
	Waiting int
	// Overdue is how long the pool's first job has been due, or its first lease
	// over, without being moved; 0 if none is.
	Overdue time.Duration
	// Known is how many topics are known: they have jobs or dead letters, or had some in roughly
	// the last hour. Topics may have fewer; see MostTopics and AtLeast.
	Known int
	// Topics are the requested ones, sorted by name.
	Topics []TopicCounts
	// Partitions are the numbers of each partition.
	Partitions []PartitionCounts
	// Used are their names in order of use, the latest last, if requested.
	Used []string
}

// TopicCounts are the numbers of a topic's jobs. A number that cannot be read is Unknown.
type TopicCounts = store.TopicCounts

// MostTopics is the most topics of each partition that Counts reads, so that its cost is bounded.
const MostTopics = 10000

// AtLeast reports whether more topics are known than were counted. The sums over Topics are then lower bounds and, with several
// partitions, so is Known.
func (c Counts) AtLeast() bool { return c.Known > len(c.Topics) }

// Counts reads the numbers of all topics or, if a partition knows more than MostTopics, of those used last. It costs Redis about a
// microsecond for each known topic of each partition, a few for one with jobs, whatever the number of jobs.
func (o *Inspector) Counts(ctx context.Context) (Counts, error) {
	return o.countsOfLast(ctx, o.none(), MostTopics)
}

// countsOfLast is Counts of the partitions that have not failed yet, for another number of topics.
func (o *Inspector) countsOfLast(ctx context.Context, failed failures, most int) (Counts, error) {
	known, err := o.known(ctx, failed, most, func(ctx context.Context, s *store.Store) ([]string, int, error) {
		return s.KnownTopics(ctx, most, "")
	})
	if err != nil {
		return Counts{}, fmt.Errorf("count jobs: %w", err)
	}
	used := known.names
	if known.isCut() {
		used = used[max(len(used)-most, 0):]
	}
	counts, err := o.countsOf(ctx, failed, used, known)
	counts.Known, counts.Used = known.all, used
	return counts, err
}

// CountsOf reads the numbers of some topics.
func (o *Inspector) CountsOf(ctx context.Context, topics ...string) (Counts, error) {
	return o.countsOf(ctx, o.none(), topics, known{})
}

// Limit returns the topic's limit.
func (o *Inspector) Limit(ctx context.Context, topic string) (l store.Limit, err error) {
	if l, err = o.fleet.Limit(ctx, topic); err != nil {
		err = fmt.Errorf("read the limit of %s: %w", store.Quote(topic), err)
	}
	return l, err
}

// countsOf is CountsOf of the partitions that have not failed yet. Each is asked only for topics that it may have.
func (o *Inspector) countsOf(ctx context.Context, failed failures, topics []string, known known) (Counts, error) {
	asked := known.of(topics, len(failed))
	parts, err := gather(ctx, o, failed, func(ctx context.Context, i int, _ *store.Store) (store.Stats, error) {
		return o.fleet.StatsOf(ctx, i, asked[i], true)
	})
	if err != nil {
		return Counts{}, fmt.Errorf("count jobs: %w", err)
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
		each.Number = i
		each.Node, _ = o.fleet.Stores[i].Addr(ctx)
	}
	return Counts{Time: sum.Time, Pool: sum.Pool, Waiting: sum.Waiting, Overdue: sum.Overdue, Topics: sum.Topics, Partitions: partitions}, nil
}

// Broken says which of several partitions cannot be read, and why; nil if all can.
func (c Counts) Broken() error { return c.failures().any() }

// BrokenPartitions are their numbers.
func (c Counts) BrokenPartitions() []int { return c.failures().numbers() }

// Failures are the reasons why some of several partitions cannot be read.
func (c Counts) Failures() []Failure { return c.failures().causes() }

func (c Counts) failures() failures {
	failed := make(failures, len(c.Partitions))
	for i, p := range c.Partitions {
		failed[i] = p.Err
	}
	return failed
}

// Overdue is Counts.Overdue and its partition; Partition is Unknown if there is only one.
type Overdue struct {
	For       time.Duration
	Partition int
	Broken    error // says which partitions cannot be read and do not count; nil if all can
}

// Overdue reads it from the partitions that can be read. It costs Redis next to nothing.
func (o *Inspector) Overdue(ctx context.Context) (Overdue, error) {
	failed := o.none()
	overdue, err := gather(ctx, o, failed, func(ctx context.Context, _ int, s *store.Store) (time.Duration, error) { return s.Overdue().Do(ctx) })
	if err != nil {
		return Overdue{}, fmt.Errorf("measure overdue jobs: %w", err)
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

// Plus adds numbers. If one is Unknown, so is the sum.
func Plus(a, b int) int { return fleet.Plus(a, b) }
