// Package dashboard is what an operator sees in a browser: whether jobs are on time, what is coming,
// each job and each dead letter, and what can be done with them. The pages work without script;
// with it the overview follows what happens.
//
// Whatever comes out of Redis is hostile: names and bodies hold any bytes. They are escaped by
// html/template, what can't be seen in them is spelled out (see pieces), and links carry them
// as base64.
package dashboard

import (
	"context"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/inspect"
	"github.com/mix-basic/delayer/internal/web"
)

// Options of a Dashboard.
type Options struct {
	// ReadOnly leaves out the controls that change something; to refuse is up to the front.
	ReadOnly bool
	// Version is this program's.
	Version string
	// Place is where Redis is.
	Place Place
}

// Dashboard serves the pages. Make one with New.
type Dashboard struct {
	client    *client.Client
	inspector *inspect.Inspector
	sampler   *sampler
	Options
	patience time.Duration // but for tests
	routes   http.Handler
}

const (
	// readTimeout is how long a page may ask Redis.
	readTimeout = 5 * time.Second
	// actTimeout is how long an action may take; what is left then can be done by a next one. The
	// front cuts off what takes longer than 30 s.
	actTimeout = 20 * time.Second
)

// New makes a Dashboard on the client and the operator, which stay the caller's.
func New(c *client.Client, op *inspect.Inspector, o Options) *Dashboard {
	d := &Dashboard{client: c, inspector: op, sampler: newSampler(op, o.Place.Now), Options: o, patience: patience}
	mux := http.NewServeMux()
	read := func(pattern string, serve func(*page) error) {
		mux.HandleFunc(pattern, d.page(readTimeout, unpacked(serve)))
	}
	read("GET /{$}", d.overview)
	read("GET /ui/live.json", d.live)
	read("GET /ui/topics", d.topics)
	read("GET /ui/topic", d.topic)
	read("GET /ui/consumers", d.consumers)
	read("GET /ui/schedules", d.schedules)
	read("GET /ui/find", d.find)
	read("GET /ui/job", d.job)
	read("GET /ui/body", d.body)
	read("GET /ui/dead", d.dead)
	read("GET /ui/dead/topic", d.deadTopic)
	read("GET /ui/push", d.pushForm)
	mux.HandleFunc("POST /ui/push", d.page(readTimeout, d.push))                    // as it was typed in
	mux.HandleFunc("GET /ui/act/{action}", d.page(actTimeout, unpacked(d.confirm))) // it may have to count as many
	mux.HandleFunc("POST /ui/act/{action}", d.page(actTimeout, unpacked(d.act)))
	none := d.page(readTimeout, unpacked(func(*page) error { return errNoPage }))
	mux.HandleFunc("/ui/", none)
	mux.Handle("GET /ui/static/", static)
	d.routes = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p := r.URL.EscapedPath(); p != "/" && path.Clean(p) != strings.TrimSuffix(p, "/") {
			none(w, r) // mux would redirect
			return
		}
		mux.ServeHTTP(w, r)
	})
	return d
}

// Area is the dashboard as a part of the front.
func (d *Dashboard) Area() web.Area {
	return web.Area{Handler: d.routes, Patterns: []string{"GET /{$}", "GET /ui/", "POST /ui/"}, Refuse: d.refuse, Pages: true}
}

// Run keeps the charts going until ctx is done, as long as somebody looks at them. Without it they
// are drawn of what the pages ask for.
func (d *Dashboard) Run(ctx context.Context) { d.sampler.run(ctx) }
