package delayqueue

import (
	"context"
	"net/http"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/web"
)

// releaseTimeout bounds the giving back of a job that its client did not get. Should it fail, the
// job comes again when its ttr is over.
const releaseTimeout = 5 * time.Second

func (a *api) pop(w http.ResponseWriter, r *http.Request, body []byte) {
	topics, complaint := readTopics(body)
	if complaint != "" {
		fail(w, complaint)
		return
	}
	if d := a.ready(r.Context(), topics); d != nil {
		deliver(w, r, d)
		return
	}
	web.Detach(w, r, func(w http.ResponseWriter, r *http.Request) {
		switch d, err := a.wait(w, r, topics); {
		case d != nil:
			deliver(w, r, d)
		case err != nil:
			fail(w, failed("获取Job失败", "popping failed", err))
		default:
			succeed(w, done, nil)
		}
	})
}

// maxAsking is how many requests ask whether a job is ready before they are detached. That spares
// them much if there is one; but while they ask they hold as much memory as any.
const maxAsking = 32

// ready reserves a job if there is one. Whether anything is wrong the wait will tell.
func (a *api) ready(ctx context.Context, topics []string) *client.Delivery {
	defer a.asking.Add(-1)
	if a.asking.Add(1) > maxAsking {
		return nil
	}
	o := client.FetchOptions{Max: 1, NoWait: true}
	for _, topic := range topics {
		o.Topics = append(o.Topics, client.FetchTopic{Topic: topic})
	}
	list, err := a.client.Fetch(ctx, o)
	if err != nil {
		return nil
	}
	return list[0]
}

// wait waits for a job. It comes back with none, and no error, when the time is over or the front
// stops; and when the client hangs up, to whom it does not matter what is answered.
func (a *api) wait(w http.ResponseWriter, r *http.Request, topics []string) (*client.Delivery, error) {
	ctx, cancel := web.Poll(w, r, a.PollTimeout)
	defer cancel()
	d, err := a.client.Reserve(ctx, 0, 0, topics[0], topics[1:]...)
	if ctx.Err() != nil {
		err = nil
	}
	return d, err
}

// popped is the data of an answer to /pop.
type popped struct {
	ID   string `json:"id"`
	Body string `json:"body"`
}

// deliver gives the job to the client, or, when that has hung up, back at once.
func deliver(w http.ResponseWriter, r *http.Request, d *client.Delivery) {
	text := success(done, popped{d.ID, d.Body})
	if !web.HungUp(r) && write(w, text) == nil && http.NewResponseController(w).Flush() == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), releaseTimeout)
	defer cancel()
	d.Release(ctx)
}
