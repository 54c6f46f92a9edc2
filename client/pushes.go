package client

import "github.com/mix-basic/delayer/internal/store"

// maxPushCalls is how many calls that store jobs are under way at a time.
const maxPushCalls = 3

// newPushes are the Push calls of a partition. Those that go together are about 1 MiB, or
// one job, and no ID is among them twice, as the later of the two comes after the earlier.
func newPushes(c *Client, s *store.Store) *shared[store.Delayed] {
	ids := map[string]bool{}
	begin := func() func(store.Delayed) bool {
		clear(ids)
		bytes := 0
		return func(job store.Delayed) bool {
			bytes += len(job.Body)
			if bytes > maxBytes || ids[job.ID] {
				return false
			}
			ids[job.ID] = true
			return true
		}
	}
	return newShared(c, s, maxPushCalls, begin, func(p *store.Pipeline, jobs []store.Delayed) ([]error, error) {
		return p.Push(jobs, false)
	})
}
