package store

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/gomodule/redigo/redis"
)

var (
	limitScript     = newScript("limit")
	takeSlotsScript = newScript("take_slots")
)

// Limit is what limits a topic's jobs. The zero value is none.
type Limit struct {
	Concurrency int     // how many are reserved at a time; 0: any number
	Rate        float64 // how many a second begin to be; 0: any number
	Burst       int     // how many of these may begin at once
	Tag         string  // that all IDs bear; then the partition of that has the whole limit. "": each has its share
}

// String is how Redis keeps it.
func (l Limit) String() string {
	return fmt.Sprintf("%d %s %d %s", l.Concurrency, strconv.FormatFloat(l.Rate, 'g', -1, 64), l.Burst, l.Tag)
}

// readLimit reads what String writes.
func readLimit(text string) (l Limit, err error) {
	fields := strings.SplitN(text, " ", 4)
	if len(fields) != 4 {
		return Limit{}, errUnreadable
	}
	var errs [3]error
	l.Concurrency, errs[0] = strconv.Atoi(fields[0])
	l.Rate, errs[1] = strconv.ParseFloat(fields[1], 64)
	l.Burst, errs[2] = strconv.Atoi(fields[2])
	l.Tag = fields[3]
	return l, errors.Join(errs[:]...)
}

// share is a partition's part of a Limit.
type share struct {
	concurrency int     // -1: any number
	interval    float64 // between two that begin, in µs; 0: none
	burst       int
}

// share is that of the partition at that place. The shares of a layout's partitions add up to the limit, unless it has fewer jobs reserved
// at a time, or begin at once, than there are partitions: each has one at least. A partition of the layout before only has the share that it
// would have in that, as its jobs may stay for as long as nobody migrates; but none of a limit that is exact.
func (l Limit) share(place int, in Layout) share {
	of := max(in.Partitions, 1)
	switch {
	case place >= of && l.Tag != "":
		return share{}
	case place >= of:
		place, of = in.numberBefore(place), in.Before
	case l.Tag != "" && place != PartitionOf("{"+l.Tag+"}", of):
		return share{}
	case l.Tag != "":
		of = 1
	}
	s := share{concurrency: -1, burst: shareOf(l.Burst, place, of)}
	if l.Concurrency > 0 {
		s.concurrency = shareOf(l.Concurrency, place, of)
	}
	if l.Rate > 0 {
		s.interval = 1e6 * float64(of) / l.Rate
	}
	return s
}

// excludes reports whether no job of a topic with that limit can be reserved in this partition, nor can migrating it help: it has a tag, and
// all jobs with that belong elsewhere. While partitions grow those may still be where they belonged before.
func (s *Store) excludes(l Limit) bool {
	if l.Tag == "" || s.layoutCheck == nil {
		return false
	}
	of, tag := s.layoutCheck.own, "{"+l.Tag+"}"
	if s.place >= of.Partitions || of.Before > 0 && s.place == of.beforeAt(PartitionOf(tag, of.Before)) {
		return false
	}
	return s.place != PartitionOf(tag, of.Partitions)
}

// shareOf is how many of all the partition at that place has, of so many: one at least.
func shareOf(all, place, of int) int {
	n := all / of
	if place < all%of {
		n++
	}
	return max(n, 1)
}

// SetLimit limits the topic's jobs, or ends that. Those that are reserved already are counted once it has returned.
func (p Partitions) SetLimit(ctx context.Context, topic string, l Limit) error {
	for i, s := range p {
		if err := s.setLimit(ctx, topic, l, l.share(i, p.layout())); err != nil {
			return p.named(i, err)
		}
	}
	return nil
}

func (s *Store) setLimit(ctx context.Context, topic string, l Limit, part share) error {
	args := append(arguments(5, s.jobPool), topic, part.concurrency, part.intervalText(), part.burst, l.String())
	if l == (Limit{}) {
		args[len(args)-4] = ""
	}
	mark, err := newCall(s, limitScript, args, func(reply any) (string, error) { return redis.String(reply, nil) }).Do(ctx)
	if err != nil || mark == "" {
		return err
	}
	return s.takeSlots(ctx, Uncounted{Topic: topic, Mark: mark})
}

// Uncounted is a topic with reserved jobs that may have no slots, because its Concurrency was set after they were reserved. Redis keeps
// the Mark until all of them have been counted.
type Uncounted struct {
	Topic, Mark string
	At          Place // how far Count has come
}

// takeSlots gives slots to all of the topic's reserved jobs.
func (s *Store) takeSlots(ctx context.Context, u Uncounted) error {
	p, err := s.Pipeline(ctx)
	if err != nil {
		return err
	}
	defer p.Close()
	for more := true; more && err == nil; {
		more, err = s.Count(&u).On(ctx, p)
	}
	return err
}

// Count gives slots to some of the topic's reserved jobs, and reports whether there may be more of them.
func (s *Store) Count(u *Uncounted) *Call[bool] {
	args := append(arguments(4, s.jobPool), u.Topic, u.At.At, u.At.ID, u.Mark)
	return newCall(s, takeSlotsScript, args, func(reply any) (bool, error) {
		_, err := scan(reply, &u.At.At, &u.At.ID)
		return u.At != Place{}, err
	})
}

// Limit is what limits the topic's jobs.
func (p Partitions) Limit(ctx context.Context, topic string) (Limit, error) {
	text, err := redis.String(p[0].command(ctx, "HGET", p[0].keys.Limits(), topic))
	if errors.Is(err, redis.ErrNil) {
		return Limit{}, nil
	}
	if err != nil {
		return Limit{}, err
	}
	return limitOf(text)
}

// limitOf reads a field of Keys.Limits: the partition's share, what has begun, and the whole limit.
func limitOf(text string) (Limit, error) {
	fields := strings.SplitN(text, " ", 6)
	return readLimit(fields[len(fields)-1])
}

// Untagged is what limits the topic's jobs, and how many ready jobs it keeps from everybody: see TopicCounts.
func (p Partitions) Untagged(ctx context.Context, topic string) (l Limit, jobs int, err error) {
	l, err = p.Limit(ctx, topic)
	for i, s := range p {
		if !s.excludes(l) {
			continue
		}
		for _, queue := range []string{s.keys.ReadyQueue(topic), s.keys.PausedQueue(topic)} {
			n, err := redis.Int(s.command(ctx, "LLEN", queue))
			if err != nil {
				return l, 0, p.named(i, err)
			}
			jobs += n
		}
	}
	return l, jobs, err
}

// CopyLimits gives partitions that have come to be since their shares of the limits there are. It is done again at no harm.
func (p Partitions) CopyLimits(ctx context.Context) error {
	for place, from := range p {
		if !p.IsBefore(place) && place != 0 {
			continue
		}
		limits, err := redis.StringMap(from.command(ctx, "HGETALL", from.keys.Limits()))
		if err != nil {
			return p.named(place, err)
		}
		for topic, text := range limits {
			if err := p.copyLimit(ctx, topic, text); err != nil {
				return err
			}
		}
	}
	return nil
}

// copyLimit has all partitions have the limit that one of them has.
func (p Partitions) copyLimit(ctx context.Context, topic, text string) error {
	l, err := limitOf(text)
	if err != nil {
		return fmt.Errorf("topic %s: %w", Quote(topic), err)
	}
	for i, s := range p {
		kept, err := redis.String(s.command(ctx, "HGET", s.keys.Limits(), topic))
		if err != nil && !errors.Is(err, redis.ErrNil) {
			return p.named(i, err)
		}
		part := l.share(i, p.layout())
		if kept != "" && strings.HasPrefix(kept, part.String()+" ") {
			continue
		}
		if err := s.setLimit(ctx, topic, l, part); err != nil {
			return p.named(i, err)
		}
	}
	return nil
}

// String is what the field of Keys.Limits begins with that has it.
func (s share) String() string {
	return fmt.Sprintf("%d %s %d", s.concurrency, s.intervalText(), s.burst)
}

// intervalText has no exponent, which the Lua of --dev does not read, and is what it comes back as.
func (s share) intervalText() string { return strconv.FormatFloat(s.interval, 'g', 17, 64) }
