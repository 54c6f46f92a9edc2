package client

import (
	"cmp"
	"context"
	"time"

	"github.com/mix-basic/delayer/internal/store"
)

// PauseOptions say how a topic is paused. The zero value works.
type PauseOptions struct {
	// For is how long the pause lasts. 0 means until Resume.
	For time.Duration
	// Note tells operators who has paused the topic, and why, in up to 1,000 bytes.
	Note string
	// UnlessPaused makes Pause return ErrPaused and change nothing if the topic is paused with another end or note.
	// A Throttle does not count.
	UnlessPaused bool
}

// Pause describes a paused topic. Times are by Redis's clock.
type Pause struct {
	Topic string
	// Since is when Client.Pause paused it, zero if it did not; Until is when that ends, zero if only Resume
	// ends it.
	Since, Until time.Time
	Note         string
	// ThrottledSince and ThrottledUntil are the beginning and the end of a Client.Throttle; zero if there is none.
	ThrottledSince, ThrottledUntil time.Time
}

// End returns when the topic is delivered again without Resume, zero if it is not.
func (p Pause) End() time.Time { return store.Pause(p).End() }

// Pause stops all deliveries of the topic, also to clients of the original, until Resume or until For is over.
// Everything else continues: jobs are pushed, fall due and become ready, are read, changed, removed and purged;
// reserved jobs can be settled, and running handlers finish. Waiting consumers keep waiting. A topic without jobs,
// or an unknown one, can be paused too.
//
// For ends by Redis's clock, up to about a second late, if a server runs. Pausing a paused topic again sets For
// and Note anew, and keeps Since.
//
// With several partitions the topic is paused in one after the other. An error says in how many it is paused;
// calling Pause again completes it. A topic counts as paused if it is paused in any partition.
func (c *Client) Pause(ctx context.Context, topic string, o PauseOptions) error {
	return c.call(ctx, "pause", topic, checkPause(topic, o.Note, o.For), func() error {
		if !o.UnlessPaused {
			return c.fleet.Pause(ctx, topic, o.For, o.Note)
		}
		paused, err := c.fleet.PauseAnew(ctx, topic, o.For, o.Note)
		if err == nil && !paused {
			err = ErrPaused
		}
		return err
	})
}

// Throttle stops all deliveries of the topic for that long from now: for a consumer that was told to slow down. It
// is independent of Pause, and shortens neither a pause nor a longer Throttle. Resume ends it. A worker's handler
// returns worker.Throttle.
func (c *Client) Throttle(ctx context.Context, topic string, d time.Duration) error {
	return c.call(ctx, "throttle", topic, checkPause(topic, "", d), func() error {
		if d == 0 {
			return nil
		}
		return c.fleet.Throttle(ctx, topic, d)
	})
}

func checkPause(topic, note string, d time.Duration) error {
	return cmp.Or(checkTopic(topic), checkSize("topic", topic, store.MaxTopic), checkSize("note", note, store.MaxNote), checkIfSet("time", d))
}

// Resume delivers a paused topic again, whatever paused it, and wakes consumers that wait for its jobs. It reports
// whether the topic was paused. If a program without pauses has made many jobs ready meanwhile, Resume takes
// several steps, and the topic stays paused until the last one. After an error it may still be paused; calling
// Resume again completes it.
func (c *Client) Resume(ctx context.Context, topic string) (wasPaused bool, err error) {
	err = c.call(ctx, "resume", topic, checkPause(topic, "", 0), func() error {
		wasPaused, err = c.fleet.Resume(ctx, topic)
		return err
	})
	return wasPaused, err
}

// Paused returns the paused topics, sorted by name.
func (c *Client) Paused(ctx context.Context) (paused []Pause, err error) {
	err = c.call(ctx, "paused", "", nil, func() error {
		all, err := c.fleet.Paused(ctx)
		paused = each(all, func(p store.Pause) Pause { return Pause(p) })
		return err
	})
	return paused, err
}
