package store

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

var statsScript = newScript("stats", "unreadable", "fields")

// Stats are how many jobs there are, and how late. What can't be read, or was not asked for, is -1.
type Stats struct {
	Time    time.Time // Redis's; zero if it can't be read, or was not asked for
	Pool    int       // jobs in the pool: those that wait, and those that are reserved
	Waiting int       // those that wait, about
	Overdue time.Duration
	Topics  []TopicCounts // those that are known, by name
}

// TopicCounts are how many jobs a topic has. What can't be read is -1.
type TopicCounts struct {
	Topic                 string
	Ready, Reserved, Dead int
	Overdue               time.Duration // for how long the next job has been ready, about; 0: none is
}

// statsPage is how many topics one script tells of.
const statsPage = 100

// Stats counts the jobs; if late is set, it also tells how late they are.
func (s *Store) Stats(ctx context.Context, late bool) (Stats, error) {
	p, err := s.Pipeline(ctx)
	if err != nil {
		return Stats{}, err
	}
	defer p.Close()
	var all Stats
	for first, asked := 0, p.statsOf(late, 0); asked != nil; {
		reply, err := redis.Values(p.receive(asked))
		if err != nil {
			return Stats{}, err
		}
		// Redis counts the next page while this one is read, but not sooner: it would do all pages in
		// one go, and nothing else.
		asked = nil
		if len(reply) >= statsHead+statsPage*statsTopic {
			first += statsPage
			asked = p.statsOf(late, first)
			p.Flush()
		}
		page, err := readStats(reply)
		if err != nil {
			return Stats{}, err
		}
		all.Time, all.Pool, all.Overdue = page.Time, page.Pool, page.Overdue
		all.Topics = append(all.Topics, page.Topics...)
	}
	// A topic comes again if others have become known meanwhile.
	slices.SortStableFunc(all.Topics, func(a, b TopicCounts) int { return strings.Compare(a.Topic, b.Topic) })
	all.Topics = slices.CompactFunc(all.Topics, func(a, b TopicCounts) bool { return a.Topic == b.Topic })
	reserved := 0
	for _, t := range all.Topics {
		reserved += max(t.Reserved, 0)
	}
	all.Waiting = max(all.Pool-reserved, 0)
	return all, nil
}

// statsOf asks for a page of the topics, but for the first ones.
func (p *Pipeline) statsOf(late bool, first int) *call {
	k := p.store.keys
	args := statsScript.args([]string{k.JobPool(), k.Topics(), k.Reserved()},
		k.ReadyQueue(""), k.DeadLetters(""), k.JobBucket(""), first, statsPage)
	if late {
		args = append(args, "late")
	}
	return p.send(statsScript, args)
}

// statsHead and statsTopic are how many elements of the script's reply come first, and of each topic.
const statsHead, statsTopic = 3, 5

func readStats(reply []any) (Stats, error) {
	var page Stats
	var now, overdue int64
	rest, err := redis.Scan(reply, &now, &page.Pool, &overdue)
	if now >= 0 {
		page.Time = time.UnixMicro(now)
	}
	page.Overdue = known(overdue)
	page.Topics = make([]TopicCounts, 0, len(rest)/statsTopic)
	for err == nil && len(rest) >= statsTopic {
		var t TopicCounts
		rest, err = redis.Scan(rest, &t.Topic, &t.Ready, &t.Reserved, &t.Dead, &overdue)
		t.Overdue = known(overdue)
		page.Topics = append(page.Topics, t)
	}
	if err != nil {
		return Stats{}, errReply("stats", reply)
	}
	return page, nil
}
