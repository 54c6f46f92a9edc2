package fsck

import (
	"context"
	"maps"
	"slices"

	"github.com/mix-basic/delayer/internal/store"
)

// look takes the fingerprints of jobs that seem to be lost, and drops the other suspects.
func (c *Checker) look(ctx context.Context, p *part) (err error) {
	p.suspects = slices.DeleteFunc(p.suspects, func(j store.Lost) bool { // found in a queue that was read later
		_, ready := p.ready[c.hash(j.ID)]
		return ready
	})
	p.suspects, err = c.askLost(ctx, p, p.suspects, store.LostLook)
	return err
}

// askLost runs FsckLost for many jobs in batches, and returns the lost ones.
func (c *Checker) askLost(ctx context.Context, p *part, jobs []store.Lost, do string) (lost []store.Lost, err error) {
	pace := fewEach
	for len(jobs) > 0 {
		some := jobs[:min(len(jobs), pace.n)]
		page, err := step(ctx, c, &pace, p.FsckLost(some, do), func(l store.LostPage) int { return l.Took })
		if err != nil {
			return nil, err
		}
		lost, jobs = append(lost, page.Jobs...), jobs[len(some):]
	}
	return lost, nil
}

// checkSuspicions waits if there are suspicions, and checks them again.
func (c *Checker) checkSuspicions(ctx context.Context) error {
	if !slices.ContainsFunc(c.parts, func(p *part) bool { return len(p.suspects) > 0 || len(p.counts) > 0 }) {
		return nil
	}
	if err := rest(ctx, c.Wait); err != nil {
		return err
	}
	for _, p := range c.parts {
		if err := c.checkLost(ctx, p); err != nil {
			return c.fleet.Named(p.number, err)
		}
		if err := c.checkCounts(ctx, p); err != nil {
			return c.fleet.Named(p.number, err)
		}
	}
	return nil
}

// checkLost reads the queues of the suspects' topics once more, and repairs unchanged jobs that are in none of them.
func (c *Checker) checkLost(ctx context.Context, p *part) error {
	byTopic := map[string]map[string]store.Lost{}
	for _, job := range p.suspects {
		if byTopic[job.Topic] == nil {
			byTopic[job.Topic] = map[string]store.Lost{}
		}
		byTopic[job.Topic][job.ID] = job
	}
	do := store.LostLook
	if c.Repair && c.Lost != List {
		do = c.Lost
	}
	for topic, jobs := range byTopic {
		err := c.walkQueues(ctx, p, topic, func(page store.QueuePage) {
			for _, id := range page.IDs {
				delete(jobs, id)
			}
		})
		if err != nil {
			return err
		}
		lost, err := c.askLost(ctx, p, slices.Collect(maps.Values(jobs)), do)
		if err != nil {
			return err
		}
		for _, job := range lost {
			c.note(p, "lost_job", job.ID, job.Repaired)
			if job.Repaired && do == store.LostRequeue {
				c.checkPartition(p, job.ID)
			}
		}
	}
	return nil
}

// checkCounts counts the leases once more, and corrects the counts that disagree as before.
func (c *Checker) checkCounts(ctx context.Context, p *part) error {
	if len(p.counts) == 0 {
		return nil
	}
	again, err := c.walkPool(ctx, p, false)
	if err != nil {
		return err
	}
	var wrong []store.ReservedCount
	for topic, count := range p.counts {
		if again[topic] == count {
			wrong = append(wrong, count)
			c.note(p, "reserved_count", topic, false)
		}
	}
	for some := range slices.Chunk(wrong, firstPage) {
		if !c.Repair {
			break
		}
		repaired, err := p.FsckReserved(some).Do(ctx)
		if err != nil {
			return err
		}
		for _, topic := range repaired {
			c.note(p, "reserved_count", topic, true)
		}
	}
	return nil
}
