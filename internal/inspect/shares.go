package inspect

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/mix-basic/delayer/internal/store"
)

// Shares say how the waiting jobs are distributed over topics.
type Shares struct {
	Waiting int // roughly, of all topics, without reserved ones
	Sampled int // how many entries of the pool were examined
	Exact   bool
	Topics  []Share // the largest first
	// Broken says why some partitions cannot be read and do not count; nil if all can.
	Broken error
}

// Share is a topic's share of the waiting jobs.
type Share struct {
	Topic   string
	Jobs    int // estimated, unless exact
	Sampled int // how many jobs of the sample were of the topic
}

const (
	// maxSample is the most entries of a sample, and sampleStep how many are examined by
	// one script.
	maxSample, sampleStep = 10000, 100
)

// Shares estimates them from a sample of that many entries of the pool, up to 10,000, which are
// spread evenly over the due times. If the pool has no more entries, the numbers are exact. Reserved
// jobs do not count.
func (o *Inspector) Shares(ctx context.Context, sample int) (Shares, error) {
	if sample < 1 || sample > maxSample {
		return Shares{}, fmt.Errorf("sample waiting jobs: sample %d is not from 1 to %d", sample, maxSample)
	}
	return o.sharesWithin(ctx, sample, 0)
}

// sharesWithin is Shares of the jobs that are due within that time, or of all if it is 0.
func (o *Inspector) sharesWithin(ctx context.Context, sample int, within time.Duration) (Shares, error) {
	failed := o.none()
	parts, err := gather(ctx, o, failed, func(ctx context.Context, _ int, s *store.Store) (shares, error) {
		return sampleOf(ctx, s, sample, within)
	})
	if err != nil {
		return Shares{}, fmt.Errorf("sample waiting jobs: %w", err)
	}
	all := Shares{Exact: true, Broken: failed.any()}
	weights, sampled := map[string]float64{}, map[string]int{} // by topic
	for i, part := range parts {
		if failed[i] != nil {
			continue
		}
		all.Exact = all.Exact && part.weight == 1
		all.Sampled += part.looked
		all.Waiting += int(math.Round(part.weight * float64(part.waiting)))
		for topic, n := range part.jobs {
			weights[topic] += part.weight * float64(n)
			sampled[topic] += n
		}
	}
	for topic, weight := range weights {
		all.Topics = append(all.Topics, Share{topic, int(math.Round(weight)), sampled[topic]})
	}
	slices.SortFunc(all.Topics, func(a, b Share) int {
		return cmp.Or(cmp.Compare(b.Jobs, a.Jobs), cmp.Compare(a.Topic, b.Topic))
	})
	return all, nil
}

// shares is a sample of one partition.
type shares struct {
	looked, waiting int            // entries that were looked at, and those that wait
	weight          float64        // how many jobs each of these stands for
	jobs            map[string]int // waiting jobs by topic
}

func sampleOf(ctx context.Context, s *store.Store, sample int, within time.Duration) (shares, error) {
	all, entries := shares{weight: 1, jobs: map[string]int{}}, 0
	for all.looked < sample {
		part, err := s.Sample(ctx, sample, all.looked, min(sample-all.looked, sampleStep), within)
		if err != nil {
			return shares{}, err
		}
		if part.Read == 0 {
			break
		}
		entries = part.Entries
		all.looked += part.Read
		all.waiting += part.Read - part.Leases
		for topic, n := range part.Jobs {
			all.jobs[topic] += n
		}
	}
	if entries > sample {
		all.weight = float64(entries) / float64(all.looked)
	}
	delete(all.jobs, "") // entries without a job
	return all, nil
}

// Load is the work that a topic has now and soon.
type Load struct {
	Due             int // jobs that are due within the time; they wait
	Ready, Reserved int
	Estimated       bool // Due was estimated from a sample
}

// Soon is within which time jobs count as due soon.
const Soon = time.Minute

// DueSoon counts the jobs of each topic that are due within a minute, overdue ones included. Beyond 1,000 in a partition it estimates
// them from a sample. Readings are shared, so that Redis is read once in maxAge at most.
func (o *Inspector) DueSoon(maxAge time.Duration) *Reading[map[string]int] {
	return o.soon.Current(maxAge)
}

func (o *Inspector) dueSoon(ctx context.Context) (map[string]int, error) {
	found, err := o.sharesWithin(ctx, loadSample, Soon)
	if err = cmp.Or(err, found.Broken); err != nil {
		return nil, fmt.Errorf("count jobs that are due soon: %w", err)
	}
	jobs := map[string]int{}
	for _, share := range found.Topics {
		jobs[share.Topic] = share.Jobs
	}
	return jobs, nil
}

// loadSample is how many entries of each partition are examined at most.
const loadSample = 1000

// Load counts a topic's jobs that are ready, reserved, or due within that time, overdue ones included.
func (o *Inspector) Load(ctx context.Context, topic string, within time.Duration) (Load, error) {
	due, err := o.sharesWithin(ctx, loadSample, within)
	if err = cmp.Or(err, due.Broken); err != nil {
		return Load{}, fmt.Errorf("measure the load: %w", err)
	}
	counts, err := o.CountsOf(ctx, topic)
	if err = cmp.Or(err, counts.Broken()); err != nil {
		return Load{}, fmt.Errorf("measure the load: %w", err)
	}
	l := Load{Estimated: !due.Exact}
	for _, t := range counts.Topics {
		l.Ready, l.Reserved = max(t.Ready, 0), max(t.Reserved, 0)
	}
	for _, share := range due.Topics {
		if share.Topic == topic {
			l.Due = share.Jobs
		}
	}
	return l, nil
}
