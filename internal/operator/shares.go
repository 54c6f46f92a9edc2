package operator

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
)

// Shares are how the waiting jobs divide among topics.
type Shares struct {
	Waiting int // in all, about, without those that are reserved
	Sampled int // how many entries of the pool were looked at
	Exact   bool
	Topics  []Share // the largest first
}

// Share is a topic's part of the waiting jobs.
type Share struct {
	Topic   string
	Jobs    int // about, if not exact
	Sampled int // how many of the sample were its
}

const (
	// maxSample is how many entries a sample has at most, sampleStep how many are looked at by
	// one script.
	maxSample, sampleStep = 10000, 100
)

// Shares estimates them by a sample of that many entries of the pool, 10,000 at most, which are
// spread evenly over the due times. Where the pool has no more the numbers are exact. Reserved
// jobs don't count.
func (o *Operator) Shares(ctx context.Context, sample int) (Shares, error) {
	if sample < 1 || sample > maxSample {
		return Shares{}, fmt.Errorf("shares: sample %d is not from 1 to %d", sample, maxSample)
	}
	all := Shares{Exact: true}
	weights, sampled := map[string]float64{}, map[string]int{} // by topic
	for i := range o.partitions {
		if err := o.sample(ctx, i, sample, &all, weights, sampled); err != nil {
			return Shares{}, fmt.Errorf("shares: %w", err)
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

// sample adds a sample of one partition.
func (o *Operator) sample(ctx context.Context, partition, sample int, all *Shares, weights map[string]float64, sampled map[string]int) error {
	entries, looked, waiting := 0, 0, 0
	jobs := map[string]int{}
	for looked < sample {
		part, err := o.partitions[partition].Sample(ctx, sample, looked, min(sample-looked, sampleStep))
		if err != nil {
			return err
		}
		if part.Looked == 0 {
			break
		}
		entries = part.Entries
		looked += part.Looked
		waiting += part.Looked - part.Leases
		for topic, n := range part.Jobs {
			jobs[topic] += n
		}
	}
	all.Exact = all.Exact && entries <= sample
	all.Sampled += looked
	weight := 1.0
	if entries > sample {
		weight = float64(entries) / float64(looked)
	}
	all.Waiting += int(math.Round(weight * float64(waiting)))
	delete(jobs, "") // entries without a job
	for topic, n := range jobs {
		weights[topic] += weight * float64(n)
		sampled[topic] += n
	}
	return nil
}
