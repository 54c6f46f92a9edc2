package server

import (
	"github.com/mix-basic/delayer/internal/store"
)

const (
	// fewPerTopic is how many jobs a topic's script should have at least, on
	// average, to be worth its fixed cost.
	fewPerTopic = 16
	// maxPages is how many answers may be put together for that.
	maxPages = 16
)

// gather adds further answers to one that has too few jobs of each topic. They
// are not of one moment: a job may be in two of them.
func (p *pass) gather(found store.DueJobs) (store.DueJobs, error) {
	page := found
	for n := 1; n < maxPages && page.More && page.Count.Total() == page.Limit && found.Count.Total() < fewPerTopic*len(found.Batches); n++ {
		var err error
		if page, err = p.find(found.Count); err != nil {
			return found, err
		}
		found = merge(found, page)
	}
	return found, nil
}

// merge puts two answers together, of which the second came after the first.
func merge(first, second store.DueJobs) store.DueJobs {
	type kind struct {
		topic string
		fresh bool
	}
	place := make(map[kind]int, len(first.Batches))
	for i, b := range first.Batches {
		place[kind{b.Topic, b.Fresh}] = i
	}
	for _, b := range second.Batches {
		if i, ok := place[kind{b.Topic, b.Fresh}]; ok {
			first.Batches[i].IDs = append(first.Batches[i].IDs, b.IDs...)
		} else {
			first.Batches = append(first.Batches, b)
		}
	}
	first.Orphans = append(first.Orphans, second.Orphans...)
	first.Count = first.Count.Plus(second.Count)
	return first
}
