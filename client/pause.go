package client

import (
	"context"
	"time"

	"github.com/mix-basic/delayer/internal/store"
)

// PauseOptions say how a topic is paused. The zero value works.
type PauseOptions struct {
	// For is after how long it ends by itself. 0 means that it doesn't.
	For time.Duration
	// Note is for those who look: who has paused it, and why. It has 1,000 bytes at most.
	Note string
}

// Pause is a topic that is paused. Times are by Redis's clock.
type Pause struct {
	Topic string
	// Since is since when Client.Pause has paused it, zero if it has not; Until, until when, zero if that is without end.
	Since, Until time.Time
	Note         string
	// BackedOffSince and BackedOffUntil are since when, and until when, consumers back off, see Client.BackOff; zero if they don't.
	BackedOffSince, BackedOffUntil time.Time
}

// End is when the topic is delivered again by itself, zero if it is not.
func (p Pause) End() time.Time { return store.Pause(p).End() }

// Pause has nothing of the topic be delivered to anybody, clients of the original included, until it is resumed, or For is over. All
// else goes on: jobs are pushed, fall due and become ready, are found, changed, removed and purged; what is reserved can be settled, and handlers
// that run finish. Those who wait go on waiting. A topic that has no jobs, or is not known, can be paused, too.
//
// For ends by Redis's clock, up to about a second late, as long as a server runs. To pause a topic again gives it the new For and Note; since when
// it is paused stays.
//
// With several partitions the topic is paused in one after the other. An error says in how many it is paused; to call Pause again
// does the rest. A topic is paused for those who look, if it is in any of them.
func (c *Client) Pause(ctx context.Context, topic string, o PauseOptions) error {
	return failed("pause", topic, c.pause(ctx, topic, o.Note, o.For, func() error {
		return c.fleet.Pause(ctx, topic, o.For, o.Note)
	}))
}

// BackOff has nothing of the topic be delivered to anybody for that long from now on: what a consumer does who was told to come more slowly. It is
// beside Pause, and shortens neither that nor another BackOff that lasts longer. Resume ends it. A handler returns worker.BackOff.
func (c *Client) BackOff(ctx context.Context, topic string, d time.Duration) error {
	return failed("back off", topic, c.pause(ctx, topic, "", d, func() error {
		if d == 0 {
			return nil
		}
		return c.fleet.BackOff(ctx, topic, d)
	}))
}

func (c *Client) pause(ctx context.Context, topic, note string, d time.Duration, do func() error) error {
	if err := checkPause(topic, note, d); err != nil {
		return err
	}
	if err := c.begin(ctx); err != nil {
		return err
	}
	defer c.running.Done()
	return do()
}

func checkPause(topic, note string, d time.Duration) error {
	if err := checkTopic(topic); err != nil {
		return err
	}
	if err := checkSize("topic", topic, store.MaxTopic); err != nil {
		return err
	}
	if err := checkSize("note", note, store.MaxNote); err != nil {
		return err
	}
	if err := checkDelay("time", d); err != nil {
		return err
	}
	return checkUnit("time", d)
}

// Resume has a paused topic be delivered again, whatever has paused it, and wakes those who wait for its jobs. It reports whether the
// topic was paused. Where somebody who doesn't know of pauses has made many jobs ready meanwhile it takes several steps, and the topic stays paused
// until the last one. After an error it may be paused still; to call Resume again does the rest.
func (c *Client) Resume(ctx context.Context, topic string) (bool, error) {
	var wasPaused bool
	err := c.pause(ctx, topic, "", 0, func() (err error) {
		wasPaused, err = c.fleet.Resume(ctx, topic)
		return err
	})
	return wasPaused, failed("resume", topic, err)
}

// Paused are the topics that are paused, by name.
func (c *Client) Paused(ctx context.Context) ([]Pause, error) {
	if err := c.begin(ctx); err != nil {
		return nil, failed("paused", "", err)
	}
	defer c.running.Done()
	all, err := c.fleet.Paused(ctx)
	return each(all, func(p store.Pause) Pause { return Pause(p) }), failed("paused", "", err)
}
