// Package delayqueue implements the HTTP API of ouqiang's delay-queue, whose clients work unchanged.
//
// The main type is api; each path is one method, which returns an envelope. Invariants: a popped job is
// reserved for its ttr with unlimited attempts, so it is redelivered until it is finished or deleted; what
// JSON can't carry unchanged is not delivered here.
//
// Rejected: delay-queue's own answer to bytes that are not UTF-8. It replaces them, and then nobody can finish
// the job.
package delayqueue

import (
	"cmp"
	"context"
	"errors"
	"math"
	"net/http"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/store"
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
	// Failed is called with errors that are not the client's fault; may be nil.
	Failed func(err error)
}

const (
	defaultMaxBody     = 1 << 20
	defaultPollTimeout = 178 * time.Second
	// redisTimeout bounds calls that do not wait for a job; less than the time limit of a request.
	redisTimeout = 10 * time.Second
)

// New returns the area for the client's jobs.
func New(c *client.Client, o Options) web.Area {
	o.MaxBody, o.PollTimeout = cmp.Or(o.MaxBody, defaultMaxBody), cmp.Or(o.PollTimeout, defaultPollTimeout)
	if o.Pushed == nil {
		o.Pushed = func(string, int) {}
	}
	if o.Failed == nil {
		o.Failed = func(error) {}
	}
	a := &api{c, o, longpoll.New(c, o.Failed)}
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
	if answer.write(w, http.StatusOK) != nil {
		a.poller.Release(answer.jobs)
	}
}

func (a *api) push(_ http.ResponseWriter, r *http.Request, body []byte) envelope {
	j, complaint := readJob(body)
	if complaint != "" {
		return failure(complaint)
	}
	m := client.Message{ID: j.ID, Topic: j.Topic, Body: j.Body}
	if _, err := a.client.Push(r.Context(), m, seconds(j.Delay), client.IfExists(client.Replace()), client.JobOptions{Lease: seconds(j.TTR), EmptyBody: true}); err != nil {
		return a.failed("添加失败", "pushing failed", err)
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
		return a.failed("删除失败", "removing failed", err)
	}
	return success(done, nil)
}

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
	return a.give(a.poller.Reserve(w, r, topics, client.FetchOptions{Max: 1, MaxAttempts: -1}, a.PollTimeout))
}

// give answers with the job, if there is one. A job that is not UTF-8 stays reserved for its ttr, so other
// jobs of the topic are delivered, and a client of /v1 may get it next.
func (a *api) give(jobs []*client.Delivery, err error) envelope {
	switch {
	case err == web.ErrCrowded:
		return failure("等待的请求过多，请稍后再试: too many requests are waiting for a job: try again later")
	case err != nil:
		return a.failed("获取Job失败", "popping failed", err)
	case len(jobs) == 0:
		return success(done, nil)
	}
	answer := tell(jobs[0].ID, jobs[0].Body, popped{jobs[0].ID, jobs[0].Body})
	answer.jobs = jobs
	return answer
}

func (a *api) get(_ http.ResponseWriter, r *http.Request, body []byte) envelope {
	id, complaint := readID(body)
	if complaint != "" {
		return failure(complaint)
	}
	ctx, cancel := context.WithTimeout(r.Context(), redisTimeout)
	defer cancel()
	found, err := a.client.Get(ctx, id)
	switch {
	case errors.Is(err, client.ErrNotFound):
		return success(done, nil)
	case err != nil:
		return a.failed("获取Job失败", "getting failed", err)
	}
	return tell(found.ID, found.Body, jobOf(found, time.Now()))
}

// jobOf is the answer of /get: its delay is the due time in Unix seconds.
func jobOf(found client.JobInfo, now time.Time) job {
	return job{
		Topic: found.Topic,
		ID:    found.ID,
		Delay: dueOf(found, now).Unix(),
		TTR:   int64(math.Ceil(cmp.Or(found.Options.Lease, store.DefaultLease).Seconds())),
		Body:  found.Body,
	}
}

// dueOf returns when the job is due or its lease ends. For a ready job it is derived from the job's lifetime,
// which starts when it becomes ready.
func dueOf(found client.JobInfo, now time.Time) time.Time {
	if found.State != client.StateReady {
		return found.Due
	}
	due := now.Add(found.TTL - store.DefaultLifetime)
	if found.TTL < 0 || due.After(now) {
		return now
	}
	return due
}

func seconds(n int64) time.Duration { return time.Duration(n) * time.Second }
