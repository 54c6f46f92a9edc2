package delayqueue

import (
	"net/http"

	"github.com/mix-basic/delayer/client"
)

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
	a.poller.Reserve(w, r, o, a.PollTimeout, deliver)
}

// popped is the data of an answer to /pop.
type popped struct {
	ID   string `json:"id"`
	Body string `json:"body"`
}

// deliver answers a /pop with the job, if there is one. It fails unless all of that is written.
func deliver(w http.ResponseWriter, _ *http.Request, jobs []*client.Delivery, err error) error {
	text := isDone
	switch {
	case err != nil:
		text = failure(failed("获取Job失败", "popping failed", err))
	case len(jobs) > 0:
		text = success(done, popped{jobs[0].ID, jobs[0].Body})
	}
	if err := write(w, text); err != nil {
		return err
	}
	return http.NewResponseController(w).Flush()
}
