// Package delayqueue is the API of ouqiang's delay-queue, whose clients work on unchanged: an area
// of the HTTP front. A job is popped by a reserve for as long as its ttr says, with any number of
// attempts: so it comes again until it is finished or deleted.
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
	// MaxBody is how many bytes the body of a request has at most; 0: 1 MiB.
	MaxBody int64
	// PollTimeout is how long /pop waits for a job; 0: 178 s, as there.
	PollTimeout time.Duration
	// Pushed is told of the jobs of a topic that were pushed here; nil: nobody is.
	Pushed func(topic string, jobs int)
}

const (
	defaultMaxBody     = 1 << 20
	defaultPollTimeout = 178 * time.Second
	// redisTimeout bounds what does not wait for a job; below the time that the front gives an
	// exchange.
	redisTimeout = 10 * time.Second
)

// New makes the area, whose jobs are the client's.
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

// route is the answer to a request that has this body.
type route func(w http.ResponseWriter, r *http.Request, body []byte) envelope

// serve takes any method, as delay-queue does.
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

// remove is for /finish, too: that takes the ID alone, and so means the newest lease, whoever has it.
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
