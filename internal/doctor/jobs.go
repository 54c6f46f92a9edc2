package doctor

import (
	"context"
	"fmt"
	"time"

	"github.com/mix-basic/delayer/internal/duration"
	"github.com/mix-basic/delayer/internal/inspect"
	"github.com/mix-basic/delayer/internal/store"
)

func checkServers(ctx context.Context, d *Doctor) (found []Finding, _ error) {
	all, err := d.Jobs.Servers(ctx)
	if err != nil {
		return nil, err
	}
	alive := store.Alive(all)
	if len(alive) == 0 {
		return one("no server runs: nothing becomes ready", "systemctl start delayer"), nil
	}
	for _, s := range alive {
		first := alive[0]
		who := fmt.Sprintf("the server %s:%d", s.Host, s.PID)
		if s.Version != first.Version {
			found = append(found, Finding{Evidence: fmt.Sprintf("%s has version %s, another one %s", who, s.Version, first.Version), Fix: "upgrade and restart it"})
		}
		if s.Interval != first.Interval {
			found = append(found, Finding{Evidence: fmt.Sprintf("%s has timer_interval %v, another one %v", who, duration.Format(s.Interval), duration.Format(first.Interval)), Fix: "give all servers the same delayer.conf"})
		}
		if s.Error != "" {
			found = append(found, Finding{Evidence: who + "'s last pass failed: " + s.Error, Fix: "see its error log"})
		}
		if s.Stale() {
			found = append(found, Finding{Evidence: fmt.Sprintf("%s was last seen %v ago", who, duration.Format(s.Age.Round(time.Second))), Fix: "restart it, or wait until its entry ends"})
		}
	}
	return found, nil
}

const clockSlack = time.Second

func checkClock(ctx context.Context, d *Doctor) ([]Finding, error) {
	began := time.Now()
	at, err := d.nodes[0].Time(ctx)
	if err != nil {
		return nil, err
	}
	if off := at.Sub(began).Abs(); off > clockSlack+time.Since(began) {
		return one(fmt.Sprintf("this host's clock and Redis's differ by %v: clients of the original set due times by their own", duration.Format(off.Round(time.Millisecond))), "synchronize both clocks"), nil
	}
	return nil, nil
}

const late = 10 * time.Second

func checkOverdue(ctx context.Context, d *Doctor) ([]Finding, error) {
	c, err := d.count(ctx)
	if err != nil || c.Overdue < late {
		return nil, err
	}
	return one(fmt.Sprintf("a job has been due for %v, and is not moved", duration.Format(c.Overdue.Round(time.Second))), "delayer servers; the error log names the reason"), nil
}

func checkConsumers(ctx context.Context, d *Doctor) (found []Finding, _ error) {
	c, err := d.count(ctx)
	if err != nil {
		return nil, err
	}
	paused, err := d.Jobs.Paused(ctx)
	if err != nil {
		return nil, err
	}
	var topics []store.WaitedFor
	var waiting []inspect.TopicCounts
	for _, t := range c.Topics {
		if t.Ready > 0 && t.Reserved <= 0 && t.AtLeast > late && paused.Of(t.Topic) == nil {
			topics, waiting = append(topics, store.WaitedFor{Topic: t.Topic}), append(waiting, t)
		}
	}
	clients, err := d.Jobs.Waiters(ctx, topics)
	for i, t := range waiting {
		if i < len(clients) && clients[i] == 0 {
			found = append(found, Finding{Evidence: fmt.Sprintf("topic %q has had ready jobs for %v that nobody takes, now %d", t.Topic, duration.Format(t.AtLeast.Round(time.Second)), t.Ready), Fix: "start a consumer: delayer worker --topic " + t.Topic})
		}
	}
	return found, err
}

// checkDead finds topics whose newest dead letter is at most an hour old.
func checkDead(ctx context.Context, d *Doctor) (found []Finding, _ error) {
	c, err := d.count(ctx)
	if err != nil {
		return nil, err
	}
	for _, t := range c.Topics {
		if t.Dead <= 0 {
			continue
		}
		page, err := d.Jobs.Browse(ctx, inspect.Query{State: inspect.Dead, Topic: t.Topic, Limit: 1})
		if err != nil {
			return nil, err
		}
		if len(page.Jobs) > 0 && time.Since(page.Jobs[0].At) < lately {
			found = append(found, Finding{
				Evidence: fmt.Sprintf("topic %q: dead letters %d, the newest %v old", t.Topic, t.Dead, duration.Format(time.Since(page.Jobs[0].At).Round(time.Second))),
				Fix:      "delayer dead list " + t.Topic,
			})
		}
	}
	return found, nil
}

func checkPaused(ctx context.Context, d *Doctor) (found []Finding, _ error) {
	paused, err := d.Jobs.Paused(ctx)
	for _, p := range paused {
		since := p.Since
		if since.IsZero() {
			since = p.BackedOffSince
		}
		found = append(found, Finding{Evidence: fmt.Sprintf("topic %q is paused since %s", p.Topic, since.Format(time.DateTime)), Fix: "delayer resume " + p.Topic})
	}
	return found, err
}

func checkThrottled(ctx context.Context, d *Doctor) (found []Finding, _ error) {
	c, err := d.count(ctx)
	for _, t := range c.Topics {
		switch {
		case t.Untagged > 0:
			found = append(found, Finding{Evidence: fmt.Sprintf("topic %q: ready jobs without its limit's tag, which nobody can reserve: %d", t.Topic, t.Untagged), Fix: "delayer limit " + t.Topic})
		case t.Throttled > 0 && t.AtLeast > late:
			found = append(found, Finding{Evidence: fmt.Sprintf("topic %q: ready jobs that wait for its limit: %d, the first for %v", t.Topic, t.Throttled, duration.Format(t.AtLeast.Round(time.Second))), Fix: "delayer limit " + t.Topic})
		}
	}
	return found, err
}

func checkSchedules(ctx context.Context, d *Doctor) (found []Finding, _ error) {
	all, err := d.Jobs.Schedules(ctx)
	for _, s := range all.List {
		if !s.Next.IsZero() && s.Paused.IsZero() && all.Time.Sub(s.Next) > late {
			found = append(found, Finding{Evidence: fmt.Sprintf("schedule %q has been due for %v", s.Name, duration.Format(all.Time.Sub(s.Next).Round(time.Second))), Fix: "delayer schedule list; the error log names the reason"})
		}
		if s.NotRun.Late > 0 && len(s.Past) > 0 && s.Past[len(s.Past)-1].What == store.OccurrenceLate {
			found = append(found, Finding{Evidence: fmt.Sprintf("schedule %q missed its last occurrence, and %d in all", s.Name, s.NotRun.Late), Fix: "delayer schedule run " + s.Name})
		}
	}
	return found, err
}

// checkCounters compares the stored counts of reserved jobs with the pool, which contains all of
// them.
func checkCounters(ctx context.Context, d *Doctor) ([]Finding, error) {
	c, err := d.count(ctx)
	reserved := 0
	for _, t := range c.Topics {
		reserved += max(t.Reserved, 0)
	}
	if err != nil || reserved <= c.Pool {
		return nil, err
	}
	return one(fmt.Sprintf("jobs counted as reserved: %d; entries of the pool: %d", reserved, c.Pool), "delayer fsck --repair"), nil
}
