package metrics

import (
	"context"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/operator"
	"github.com/mix-basic/delayer/internal/redistest"
	"github.com/mix-basic/delayer/internal/web"
	"github.com/mix-basic/delayer/server"
)

const token = "0123456789abcdef"

// world is a private Redis with a client, a server that the test runs pass by pass, and a front.
type world struct {
	*redistest.Server
	tb      testing.TB
	pool    *redis.Pool
	client  *client.Client
	server  *server.Server
	metrics *Metrics
	front   *web.Front
}

func newWorld(tb testing.TB, o Options) *world {
	tb.Helper()
	w := &world{Server: redistest.Start(tb), tb: tb}
	w.pool = w.Pool()
	w.client = client.New(w.pool)
	tb.Cleanup(func() { w.client.Close() })
	w.metrics = New(operator.New(w.pool, ""), o)
	w.server = server.New(w.pool, server.Options{Observer: w.metrics})
	w.front = web.New(web.Options{Token: token}, w.metrics.Area(), w.metrics.Health())
	w.metrics.Watch(w.front)
	return w
}

// ask asks the front, as somebody who has the token.
func (w *world) ask(method, path string) *httptest.ResponseRecorder {
	r, answer := httptest.NewRequest(method, path, nil), httptest.NewRecorder()
	r.Host = "localhost"
	r.Header.Set("Authorization", "Bearer "+token)
	w.front.ServeHTTP(answer, r)
	return answer
}

// scrape is what /metrics answers.
func (w *world) scrape() scrape {
	w.tb.Helper()
	answer := w.ask("GET", "/metrics")
	if answer.Code != 200 {
		w.tb.Fatalf("/metrics: %d %s", answer.Code, answer.Body)
	}
	return scrape(answer.Body.String())
}

// pass runs a pass, which must succeed.
func (w *world) pass() {
	w.tb.Helper()
	if err := w.server.Pass(context.Background()); err != nil {
		w.tb.Fatal(err)
	}
}

func (w *world) push(topic, id string, delay time.Duration) {
	w.tb.Helper()
	if _, err := w.client.Push(w.tb.Context(), client.Message{ID: id, Topic: topic, Body: "body"}, delay); err != nil {
		w.tb.Fatal(err)
	}
}

// clock is Redis's, in seconds.
func (w *world) clock() float64 {
	t, err := redis.Float64s(w.Do("TIME"), nil)
	if err != nil {
		w.tb.Fatal(err)
	}
	return t[0] + t[1]/1e6
}

// scrape is an answer in Prometheus's text format.
type scrape string

// value is that of a series, named as it stands there; empty if it is not there.
func (s scrape) value(series string) string {
	for line := range strings.Lines(string(s)) {
		if value, ok := strings.CutPrefix(line, series+" "); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// series are those whose names begin so.
func (s scrape) series(begin string) []string {
	var all []string
	for line := range strings.Lines(string(s)) {
		if strings.HasPrefix(line, begin) {
			all = append(all, strings.TrimSpace(line[:strings.LastIndexByte(line, ' ')]))
		}
	}
	return all
}

func (w *world) expect(s scrape, want map[string]string) {
	w.tb.Helper()
	for series, value := range want {
		if got := s.value(series); got != value {
			w.tb.Errorf("%s is %q, want %q", series, got, value)
		}
	}
}

// calls are how often Redis has done each command, in scripts, too.
func (w *world) calls() map[string]int {
	w.tb.Helper()
	stats, err := redis.String(w.Do("INFO", "commandstats"), nil)
	if err != nil {
		w.tb.Fatal(err)
	}
	calls := map[string]int{}
	for _, stat := range regexp.MustCompile(`cmdstat_([a-z|_-]+):calls=(\d+)`).FindAllStringSubmatch(stats, -1) {
		calls[stat[1]], _ = strconv.Atoi(stat[2])
	}
	return calls
}
