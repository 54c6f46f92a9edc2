package doctor

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/mix-basic/delayer/internal/duration"
	"github.com/mix-basic/delayer/internal/health"
	"github.com/mix-basic/delayer/internal/store"
)

const clockSlack = time.Second

func checkClock(ctx context.Context, d *Doctor) ([]Finding, error) {
	began := time.Now()
	at, err := d.nodes[0].Store.Time(ctx)
	if err != nil {
		return nil, err
	}
	if off := at.Sub(began).Abs(); off > clockSlack+time.Since(began) {
		return one(fmt.Sprintf("this host's clock and Redis's differ by %v: clients of the original set due times by their own", duration.Format(off.Round(time.Millisecond))), "synchronize both clocks"), nil
	}
	return nil, nil
}

func checkConsumers(ctx context.Context, d *Doctor) (found []Finding, _ error) {
	waiting, err := health.Waiting(d.view)
	if err != nil {
		return nil, err
	}
	topics := make([]store.WaitedFor, len(waiting))
	for i, t := range waiting {
		topics[i].Topic = t.Topic
	}
	clients, err := d.Jobs.Waiters(ctx, topics)
	for i, t := range waiting {
		if i < len(clients) && clients[i] == 0 {
			found = append(found, Finding{What: fmt.Sprintf("topic %q", t.Topic), Evidence: fmt.Sprintf("it has had ready jobs for %v that nobody takes, now %d", duration.Format(t.AtLeast.Round(time.Second)), t.Ready), Fix: "start a consumer: delayer worker --topic " + t.Topic})
		}
	}
	return found, err
}

// checkDead finds topics whose newest dead letter is at most an hour old.
func checkDead(ctx context.Context, d *Doctor) (found []Finding, _ error) {
	var topics []string
	var letters []int
	for _, t := range d.view.Topics {
		if t.Dead > 0 {
			topics, letters = append(topics, t.Topic), append(letters, t.Dead)
		}
	}
	dead, err := d.Jobs.DeadLately(ctx, topics, time.Now())
	for i, of := range dead {
		if age := time.Since(of.Newest); age < lately {
			found = append(found, Finding{
				What:     fmt.Sprintf("topic %q", topics[i]),
				Evidence: fmt.Sprintf("dead letters %d, the newest %v old", letters[i], duration.Format(age.Round(time.Second))),
				Fix:      "delayer dead list " + topics[i],
			})
		}
	}
	return found, cmp.Or(err, d.view.CountsErr)
}

func checkSchedules(ctx context.Context, d *Doctor) (found []Finding, _ error) {
	all, err := d.Jobs.Schedules(ctx)
	for _, s := range all.List {
		if !s.Next.IsZero() && s.Paused.IsZero() && all.Time.Sub(s.Next) > health.Late {
			found = append(found, Finding{What: fmt.Sprintf("schedule %q", s.Name), Evidence: fmt.Sprintf("it has been due for %v", duration.Format(all.Time.Sub(s.Next).Round(time.Second))), Fix: "delayer schedule list; the error log names the reason"})
		}
		if s.NotRun.Late > 0 && len(s.Past) > 0 && s.Past[len(s.Past)-1].What == store.OccurrenceLate {
			found = append(found, Finding{What: fmt.Sprintf("schedule %q", s.Name), Evidence: fmt.Sprintf("it missed its last occurrence, and %d in all", s.NotRun.Late), Fix: "delayer schedule run " + s.Name})
		}
	}
	return found, err
}
