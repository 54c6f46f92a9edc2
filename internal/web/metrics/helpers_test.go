package metrics

import (
	"context"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/inspect"
	"github.com/mix-basic/delayer/internal/testing/clienttest"
	"github.com/mix-basic/delayer/internal/testing/redistest"
	"github.com/mix-basic/delayer/internal/web"
	"github.com/mix-basic/delayer/server"
)

// check fails the test on an error.
var check = redistest.Check

const token = "0123456789abcdef"

// world is a private Redis with a client, a server whose passes the test runs, and the HTTP server.
type world struct {
	*redistest.Server
	pool    *redis.Pool
	client  *client.Client
	server  *server.Server
	metrics *Metrics
	front   *web.Server
}

func newWorld(tb testing.TB, o Options) *world {
	tb.Helper()
	return newWorldOf(tb, 1, o)
}

// newWorldOf is newWorld with several partitions.
func newWorldOf(tb testing.TB, partitions int, o Options) *world {
	tb.Helper()
	w := &world{Server: redistest.Start(tb)}
	w.pool = w.Pool()
	r := client.UsePool(w.pool, partitions)
	w.client = redistest.Must(client.New(r))
	tb.Cleanup(func() { w.client.Close() })
	w.metrics = New(inspect.New(clienttest.Jobs(r, "")), o)
	w.metrics.fresh = 0
	w.server = redistest.Must(server.New(r, server.Options{Logger: slog.New(slog.DiscardHandler), Hooks: w.metrics.Hooks()}))
	w.front = web.New(web.Options{Token: token}, w.metrics.Area(), w.metrics.Health())
	w.metrics.Watch(w.front)
	return w
}

// ask sends a request with the token.
func (w *world) ask(method, path string) *httptest.ResponseRecorder {
	r, answer := httptest.NewRequest(method, path, nil), httptest.NewRecorder()
	r.Host = "localhost"
	r.Header.Set("Authorization", "Bearer "+token)
	w.front.ServeHTTP(answer, r)
	return answer
}

// scrape requests /metrics.
func (w *world) scrape() scrape { w.TB.Helper(); return w.scrapeWith("") }

// scrapeWith is scrape with a query.
func (w *world) scrapeWith(query string) scrape {
	w.TB.Helper()
	answer := w.ask("GET", "/metrics"+query)
	if answer.Code != 200 {
		w.TB.Fatalf("/metrics: %d %s", answer.Code, answer.Body)
	}
	return scrape(answer.Body.String())
}

// pass runs a pass, which must succeed.
func (w *world) pass() {
	w.TB.Helper()
	check(w.TB, w.server.Pass(context.Background()))
}

func (w *world) push(topic, id string, delay time.Duration) {
	w.TB.Helper()
	_, err := w.client.Push(w.TB.Context(), client.Message{ID: id, Topic: topic, Body: "body"}, delay)
	check(w.TB, err)
}

// scrape is an answer in Prometheus's text format.
type scrape string

// value returns the value of a series, or "" if it is missing.
func (s scrape) value(series string) string {
	for line := range strings.Lines(string(s)) {
		if value, ok := strings.CutPrefix(line, series+" "); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// series returns the series whose names start with begin.
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
	w.TB.Helper()
	for series, value := range want {
		if got := s.value(series); got != value {
			w.TB.Errorf("%s is %q, want %q", series, got, value)
		}
	}
}

// manyScript writes ARGV[1] waiting jobs, numbered from ARGV[2], and ARGV[3] topics. The first ARGV[4]
// topics have a ready job and a dead letter.
var manyScript = redis.NewScript(0, `
for n = ARGV[2], ARGV[2] + ARGV[1] - 1 do
  redis.call('HSET', 'delayer:job_bucket:job' .. n, 'topic', 'topic' .. n % ARGV[3], 'body', '{"order":' .. n .. '}')
  redis.call('PEXPIRE', 'delayer:job_bucket:job' .. n, 604800000)
  redis.call('ZADD', 'delayer:job_pool', 9e9 + n, 'job' .. n)
end
if ARGV[2] == '0' then
  for n = 1, ARGV[3] do
    local topic, id = 'topic' .. n, 'ready' .. n
    redis.call('ZADD', 'delayer:topics', 0, topic)
    redis.call('HSET', 'delayer:reserved', topic, n)
    if n <= tonumber(ARGV[4]) then
      redis.call('HMSET', 'delayer:job_bucket:' .. id, 'topic', topic, 'body', 'body')
      redis.call('EXPIRE', 'delayer:job_bucket:' .. id, 604700)
      redis.call('LPUSH', 'delayer:ready_queue:' .. topic, id)
      redis.call('ZADD', 'delayer:dead_letters:' .. topic, 1, id)
    end
  end
end`)

// many fills Redis with waiting jobs and topics, some of them busy.
func many(tb testing.TB, conn redis.Conn, jobs, topics, busy int) {
	tb.Helper()
	const chunk = 10000
	for n := 0; n < jobs; n += chunk {
		_, err := manyScript.Do(conn, min(chunk, jobs-n), n, topics, busy)
		check(tb, err)
	}
}
