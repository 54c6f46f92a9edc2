package delayqueue

import (
	"net/http"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/web"
)

// popped is the data of /pop.
type popped struct {
	ID   string `json:"id"`
	Body string `json:"body"`
}

func (a *api) pop(w http.ResponseWriter, r *http.Request, body []byte) envelope {
	topics, complaint := readTopics(body)
	if complaint != "" {
		return failure(complaint)
	}
	return give(a.poller.Reserve(w, r, topics, client.FetchOptions{Max: 1}, a.PollTimeout))
}

// give answers with the job, if there is one. A job that is not UTF-8 stays reserved for its ttr, so other
// jobs of the topic are delivered, and a client of /v1 may get it next.
func give(jobs []*client.Delivery, err error) envelope {
	switch {
	case err == web.ErrCrowded:
		return failure("等待的请求过多，请稍后再试: too many requests are waiting for a job: try again later")
	case err != nil:
		return failed("获取Job失败", "popping failed", err)
	case len(jobs) == 0:
		return success(done, nil)
	}
	answer := tell(jobs[0].ID, jobs[0].Body, popped{jobs[0].ID, jobs[0].Body})
	answer.jobs = jobs
	return answer
}
