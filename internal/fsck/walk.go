package fsck

import (
	"context"
	"hash/maphash"
	"maps"
	"regexp"
	"strings"
	"time"

	"github.com/mix-basic/delayer/internal/store"
)

const (
	stepTime  = time.Millisecond // maximum time of a script; the stall budget is 2 ms
	firstPage = 50
	most      = 1000 // entries per page
	scanned   = 500  // keys per SCAN
)

// pace is the number of entries that a step reads.
type pace struct{ n, least int }

// A repair of a page walks the whole queue, so few entries cost as much as many.
var (
	manyEach = pace{firstPage, firstPage}
	fewEach  = pace{4, 1} // each entry costs a walk
)

// step makes a call, adapts the pace to the time it took, and rests equally long if the rest would
// be long enough to matter.
func step[T any](ctx context.Context, c *Checker, p *pace, call *store.Call[T], took func(T) int) (T, error) {
	answer, err := call.Do(ctx)
	if err != nil {
		return answer, err
	}
	us := time.Duration(took(answer)) * time.Microsecond
	switch {
	case us > stepTime:
		p.n = max(p.n/2, p.least)
	case us < stepTime/2:
		p.n = min(p.n*2, most)
	}
	if c.tired += us; c.tired < stepTime {
		return answer, nil
	}
	us, c.tired = c.tired, 0
	return answer, rest(ctx, us)
}

func rest(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

func (c *Checker) advance(n int) {
	c.done += n
	c.Progress(c.done, c.total)
}

func (c *Checker) hash(id string) uint64 { return maphash.String(c.seed, id) }

// walkTopic reads the queues of a topic.
func (c *Checker) walkTopic(ctx context.Context, p *part, topic string) error {
	p.walked[topic] = true
	return c.walkQueues(ctx, p, topic, func(page store.QueuePage) {
		c.checkPartition(p, page.IDs...)
		for _, id := range page.IDs {
			p.ready[c.hash(id)] = struct{}{}
		}
		c.total, c.report.Entries = c.total+page.Read, c.report.Entries+page.Read
		c.advance(page.Read)
	})
}

// walkQueues reads the ready queue of a topic and its parked jobs.
func (c *Checker) walkQueues(ctx context.Context, p *part, topic string, visit func(store.QueuePage)) error {
	for _, parked := range []bool{false, true} {
		pace, at := manyEach, store.QueuePlace{}
		for {
			page, err := step(ctx, c, &pace, p.FsckQueue(topic, parked, at, pace.n), func(q store.QueuePage) int { return q.Took })
			if err != nil {
				return err
			}
			visit(page)
			if at = page.At; at.Left <= 0 {
				break
			}
		}
	}
	return nil
}

// walkPool reads the pool. It returns the counts of reserved jobs that disagree with the leases and did not change in the
// meantime.
func (c *Checker) walkPool(ctx context.Context, p *part, first bool) (map[string]store.ReservedCount, error) {
	began, err := p.Time(ctx)
	if err != nil {
		return nil, err
	}
	before, err := c.reservedCounts(ctx, p)
	if err != nil {
		return nil, err
	}
	leases, newest := map[string]int{}, map[string]int64{}
	pace := manyEach
	for at := "0"; ; {
		call := p.FsckPool(at, pace.n, c.Repair && first, len(c.parts) > 1)
		page, err := step(ctx, c, &pace, call, func(s store.PoolPage) int { return s.Took })
		if err != nil {
			return nil, err
		}
		for _, l := range page.Leases {
			leases[l.Topic] += l.Count
			newest[l.Topic] = max(newest[l.Topic], l.Newest)
		}
		if first {
			c.noteAll(p, page.Faults)
			c.checkPartition(p, page.IDs...)
			c.advance(pace.n)
		}
		if at = page.Next; at == "0" {
			break
		}
	}
	after, err := c.reservedCounts(ctx, p)
	if err != nil {
		return nil, err
	}
	if first {
		c.report.Entries += p.Entries(ctx, p.Keys().JobPool())
	}
	topics := maps.Clone(leases)
	for topic := range before {
		topics[topic] += 0
	}
	suspicious := map[string]store.ReservedCount{}
	for topic, n := range topics {
		kept := store.ReservedCount{Topic: topic, Kept: before[topic], Leases: n}
		if kept.Kept == "" {
			kept.Kept = "0"
		}
		switch {
		case kept.Reserved() == n:
		case before[topic] != after[topic] || newest[topic] >= began.UnixMicro():
			if first {
				c.report.Busy++
			}
		default:
			suspicious[topic] = kept
		}
	}
	return suspicious, nil
}

func (c *Checker) reservedCounts(ctx context.Context, p *part) (map[string]string, error) {
	all := map[string]string{}
	for at := "0"; ; {
		page, next, err := p.ReservedCounts(ctx, at, scanned)
		if err != nil && store.KindOf(err) != store.WrongType {
			return nil, err
		}
		maps.Copy(all, page)
		if at = next; at == "0" {
			return all, nil
		}
	}
}

// walkSet reads one of the sets of FsckSet.
func (c *Checker) walkSet(ctx context.Context, p *part, set store.FsckSet, topic string) error {
	pace := manyEach
	for at := "0"; ; {
		call := p.FsckSet(set, topic, at, pace.n, c.Repair, set == store.DeadSet && len(c.parts) > 1)
		page, err := step(ctx, c, &pace, call, func(s store.Scanned) int { return s.Took })
		if err != nil {
			return err
		}
		c.noteAll(p, page.Faults)
		c.checkPartition(p, page.IDs...)
		if at = page.Next; at == "0" {
			return nil
		}
	}
}

// walkKeys reads every key of a node.
func (c *Checker) walkKeys(ctx context.Context, node *store.Store) error {
	pace := manyEach
	for at := "0"; ; {
		names, next, err := node.ScanKeys(ctx, c.fleet.Prefix, at, scanned)
		if err != nil {
			return err
		}
		keys := map[*part][]store.FoundKey{}
		for _, name := range names {
			c.sort(name, keys)
		}
		for p, found := range keys {
			for len(found) > 0 {
				some := found[:min(len(found), pace.n)]
				if err := c.checkKeys(ctx, p, some, &pace); err != nil {
					return c.fleet.Named(p.number, err)
				}
				found = found[len(some):]
			}
		}
		c.advance(scanned)
		if at = next; at == "0" {
			return nil
		}
	}
}

var inBraces = regexp.MustCompile(`^\{(\d+)\}:`)

// isAnothers reports whether a name, without our prefix, is a key of another Delayer whose prefix begins with ours and ends with a colon.
func isAnothers(rest string) bool {
	for i := range len(rest) {
		if rest[i] == ':' && store.KeysOf("").FindKey(rest[i+1:]).Kind != "" {
			return true
		}
	}
	return false
}

// sort adds a key to its partition's keys, or notes that it is not Delayer's.
func (c *Checker) sort(name string, keys map[*part][]store.FoundKey) {
	rest := strings.TrimPrefix(name, c.fleet.Prefix)
	braces := inBraces.FindString(rest)
	for _, p := range c.parts {
		if strings.HasPrefix(name, p.Keys().Prefix()) && (len(c.parts) == 1 && braces == "" || c.fleet.Prefix+braces == p.Keys().Prefix()) {
			if found := p.Keys().FindKey(name); found.Kind != "" {
				c.report.Keys++
				keys[p] = append(keys[p], found)
				return
			}
			break
		}
	}
	known := store.KeysOf(c.fleet.Prefix+braces).FindKey(name).Kind != ""
	switch {
	case known && name == store.KeysOf(c.fleet.Prefix).Partition(0).Layout(): // the key that records a single partition
	case known:
		c.note(nil, "other_layout", c.fleet.Prefix+braces, false)
	case !isAnothers(rest):
		c.note(nil, "unknown_key", name, false)
	}
}

// checkKeys checks some keys of a partition, and reads those that list jobs.
func (c *Checker) checkKeys(ctx context.Context, p *part, keys []store.FoundKey, pace *pace) error {
	checked, err := step(ctx, c, pace, p.FsckKeys(keys, c.Repair), func(k store.CheckedKeys) int { return k.Took })
	if err != nil {
		return err
	}
	c.noteAll(p, checked.Faults)
	for i := 0; i+1 < len(checked.Candidates); i += 2 {
		id, topic := checked.Candidates[i], checked.Candidates[i+1]
		if _, ready := p.ready[c.hash(id)]; !ready {
			p.suspects = append(p.suspects, store.Lost{ID: id, Topic: topic})
		}
	}
	for _, key := range keys {
		switch topic := key.Rest; {
		case key.Kind == "dead":
			err = c.walkSet(ctx, p, store.DeadSet, topic)
		case (key.Kind == "ready" || key.Kind == "parked") && !p.walked[topic]:
			err = c.walkTopic(ctx, p, topic)
		}
		if err != nil {
			return err
		}
	}
	return c.finishPauses(ctx, p, checked.Faults)
}

// finishPauses repairs parked queues that are too long for one step.
func (c *Checker) finishPauses(ctx context.Context, p *part, faults []store.Fault) error {
	for _, f := range faults {
		for tries := 0; c.Repair && f.Kind == "parked_without_pause" && !f.Repaired && tries < 10000; tries++ {
			pace := fewEach
			checked, err := step(ctx, c, &pace, p.FsckKeys([]store.FoundKey{{Kind: "parked", Rest: f.Name}}, true), func(k store.CheckedKeys) int { return k.Took })
			if err != nil {
				return err
			}
			if len(checked.Faults) == 0 || checked.Faults[0].Repaired {
				c.note(p, f.Kind, f.Name, true)
				break
			}
		}
	}
	return nil
}
