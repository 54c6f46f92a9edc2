package delayqueue

import (
	"net/http"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/web"
)

func (a *api) pop(w http.ResponseWriter, r *http.Request, body []byte) {
	topics, complaint := readTopics(body)
	if complaint != "" {
		fail(w, complaint)
		return
	}
	jobs, err := a.poller.Reserve(w, r, topics, client.FetchOptions{Max: 1}, a.PollTimeout)
	a.poller.Deliver(w, r, jobs, func() error { return deliver(w, jobs, err) })
}

// popped is the data of an answer to /pop.
type popped struct {
	ID   string `json:"id"`
	Body string `json:"body"`
}

// textOf is the answer that has the job. One that is no text stays reserved for its ttr: so the others of its
// topic go on, and whoever uses /v1 may get it next.
func textOf(d *client.Delivery) []byte {
	if complaint := notText(d.ID, d.Body); complaint != "" {
		return failure(complaint)
	}
	return success(done, popped{d.ID, d.Body})
}

// deliver answers a /pop with the job, if there is one. It fails unless all of that is written.
func deliver(w http.ResponseWriter, jobs []*client.Delivery, err error) error {
	text := isDone
	switch {
	case err == web.ErrCrowded:
		text = failure("等待的请求过多，请稍后再试: too many requests wait for a job: ask again later")
	case err != nil:
		text = failure(failed("获取Job失败", "popping failed", err))
	case len(jobs) > 0:
		text = textOf(jobs[0])
	}
	if err := write(w, text); err != nil {
		return err
	}
	return http.NewResponseController(w).Flush()
}
