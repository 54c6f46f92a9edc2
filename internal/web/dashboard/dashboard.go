// Package dashboard is the operator's view in a browser: whether jobs are on time, what falls due next, every
// job and dead letter, and actions on them. The pages work without scripts; with them the overview updates
// itself.
//
// The main types are Dashboard and page, a request with the page that answers it. A page is one method that
// loads its data and names its template; the actions are a table (see actions); all viewers share the readings of
// Redis. The charts and rates come from the servers' history.
//
// Invariants: everything read from Redis is hostile, since names and bodies may hold any bytes. html/template
// escapes them, invisible characters are spelled out (see pieces), and links carry them percent-encoded. No page has
// inline scripts or styles. Redis is read once a second at most, however many people watch.
//
// Rejected: a framework in the browser. The overview is updated by its own templates, so there is one way to
// show a thing, and it works without scripts.
package dashboard

import (
	"net/http"
	"path"
	"strings"
	"sync/atomic"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/inspect"
	"github.com/mix-basic/delayer/internal/web"
)

// Options of a Dashboard.
type Options struct {
	// ReadOnly hides the controls that change something; web.Options.ReadOnly refuses them.
	ReadOnly bool
	// Version is this program's version.
	Version string
	// Place describes where Redis is.
	Place Place
}

// Dashboard serves the pages. Create it with New.
type Dashboard struct {
	client    *client.Client
	inspector *inspect.Inspector
	Options
	readings
	acted    atomic.Int64  // when the last action ended, in Unix ns
	patience time.Duration // shortened by tests
	routes   http.Handler
}

const (
	// readTimeout bounds the calls to Redis for one page.
	readTimeout = 5 * time.Second
	// actTimeout bounds an action; repeating the action does the rest. The server cuts off requests after 30
	// s.
	actTimeout = 20 * time.Second
)

// New returns a Dashboard that uses the client and the inspector, without owning them.
func New(c *client.Client, op *inspect.Inspector, o Options) *Dashboard {
	d := &Dashboard{client: c, inspector: op, Options: o, readings: newReadings(op, o.Place.Now), patience: patience}
	mux := http.NewServeMux()
	read := func(pattern string, serve func(*page) error) {
		mux.HandleFunc(pattern, d.page(readTimeout, serve))
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
	mux.HandleFunc("POST /ui/push", d.page(readTimeout, d.push))
	mux.HandleFunc("GET /ui/act/{action}", d.page(actTimeout, d.confirm)) // counting may take as long as acting
	mux.HandleFunc("POST /ui/act/{action}", d.page(actTimeout, d.act))
	none := d.page(readTimeout, func(*page) error { return errNoPage })
	mux.HandleFunc("/ui/", none)
	mux.Handle("GET /ui/static/", static)
	d.routes = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p := r.URL.EscapedPath(); p != "/" && path.Clean(p) != strings.TrimSuffix(p, "/") {
			none(w, r) // the mux would redirect
			return
		}
		mux.ServeHTTP(w, r)
	})
	return d
}

// Area returns the dashboard as an area of the HTTP server.
func (d *Dashboard) Area() web.Area {
	return web.Area{Handler: d.routes, Patterns: []string{"GET /", "GET /ui/", "POST /ui/"}, Refuse: d.refuse, Pages: true}
}
