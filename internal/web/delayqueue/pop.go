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
	o := client.FetchOptions{Max: 1}
	for _, topic := range topics {
		o.Topics = append(o.Topics, client.FetchTopic{Topic: topic})
	}
	a.poller.Reserve(w, r, o, a.PollTimeout, func(w http.ResponseWriter, r *http.Request, jobs []*client.Delivery, err error) {
		switch {
		case err != nil:
			fail(w, failed("获取Job失败", "popping failed", err))
		case len(jobs) == 0:
			write(w, isDone)
		default:
			deliver(w, r, jobs[0])
		}
	})
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
