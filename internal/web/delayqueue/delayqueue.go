// Package delayqueue implements the HTTP API of ouqiang's delay-queue, whose clients work unchanged. A pop
// reserves the job for its ttr with unlimited attempts, so the job is redelivered until it is finished or
// deleted.
package delayqueue

import (
	"cmp"
	"net/http"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/web"
	"github.com/mix-basic/delayer/internal/web/longpoll"
)

// Options of the area.
type Options struct {
	// MaxBody is the maximum size of a request's body in bytes; 0 means 1 MiB.
	MaxBody int64
	// PollTimeout is how long /pop waits for a job; 0 means 178 s, delay-queue's default.
	PollTimeout time.Duration
	// Pushed is called for jobs pushed here; may be nil.
	Pushed func(topic string, jobs int)
}

const (
	defaultMaxBody     = 1 << 20
	defaultPollTimeout = 178 * time.Second
	// redisTimeout bounds calls that do not wait for a job; less than the time limit of a request.
	redisTimeout = 10 * time.Second
)

// New returns the area for the client's jobs.
func New(c *client.Client, o Options) web.Area {
	a := &api{client: c, Options: o, poller: longpoll.New(c, func(error) {})}
	a.MaxBody = cmp.Or(o.MaxBody, defaultMaxBody)
	a.PollTimeout = cmp.Or(o.PollTimeout, defaultPollTimeout)
	if o.Pushed == nil {
		a.Pushed = func(string, int) {}
	}
	routes := map[string]route{"/push": a.push, "/pop": a.pop, "/delete": a.remove, "/finish": a.remove, "/get": a.get}
	area := web.Area{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { a.serve(w, r, routes[r.URL.Path]) }),
		Refuse:  refuse,
		Reads:   func(r *http.Request) bool { return r.URL.Path == "/get" },
	}
	for path := range routes {
		area.Patterns = append(area.Patterns, path)
	}
	return area
}

type api struct {
	client *client.Client
	Options
	poller *longpoll.Poller
}

// route answers a request with this body.
type route func(w http.ResponseWriter, r *http.Request, body []byte) envelope

// serve accepts any method, as delay-queue does.
func (a *api) serve(w http.ResponseWriter, r *http.Request, route route) {
	var answer envelope
	if body, err := web.ReadBody(w, r, a.MaxBody); err != nil {
		answer = failure(unreadable(err, a.MaxBody))
	} else {
		answer = route(w, r, body)
	}
	a.poller.Deliver(w, r, answer.jobs, func() error { return answer.write(w, http.StatusOK) })
}

func (a *api) push(_ http.ResponseWriter, r *http.Request, body []byte) envelope {
	j, complaint := readJob(body)
	if complaint != "" {
		return failure(complaint)
	}
	m := client.Message{ID: j.ID, Topic: j.Topic, Body: j.Body}
	if _, err := a.client.Push(r.Context(), m, seconds(j.Delay), client.TTR(seconds(j.TTR)), client.EmptyBody()); err != nil {
		return failed("添加失败", "pushing failed", err)
	}
	a.Pushed(j.Topic, 1)
	return success(pushed, nil)
}

// remove also serves /finish, which names the job by its ID only and so ends whichever lease is current.
func (a *api) remove(_ http.ResponseWriter, r *http.Request, body []byte) envelope {
	id, complaint := readID(body)
	if complaint != "" {
		return failure(complaint)
	}
	if _, err := a.client.Remove(r.Context(), id); err != nil {
		return failed("删除失败", "removing failed", err)
	}
	return success(done, nil)
}

func seconds(n int64) time.Duration { return time.Duration(n) * time.Second }
