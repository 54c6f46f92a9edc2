package metrics

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// ready requests /readyz with the token, after pending readings of Redis are done.
func (w *world) ready() (code int, reasons []string, body string) {
	w.TB.Helper()
	answer := w.ask("GET", "/readyz")
	var got readiness
	if err := json.Unmarshal(answer.Body.Bytes(), &got); err != nil {
		w.TB.Fatalf("%s: %v", answer.Body, err)
	}
	for _, r := range got.Reasons {
		reasons = append(reasons, r.Reason)
	}
	if got.Ready != (answer.Code == 200) || got.Ready != (len(reasons) == 0) || got.Reasons == nil {
		w.TB.Errorf("%d with %s", answer.Code, answer.Body)
	}
	for _, r := range got.Degraded {
		reasons = append(reasons, "degraded: "+r.Reason)
	}
	return answer.Code, reasons, answer.Body.String()
}

func (w *world) expectReady(what string, want ...string) {
	w.TB.Helper()
	var body string
	defer func() {
		if w.TB.Failed() {
			w.TB.Logf("last it said %s", body)
		}
	}()
	redistest.Until(w.TB, fmt.Sprintf("%s: not as it should be is %q", what, want), func() bool {
		var reasons []string
		_, reasons, body = w.ready()
		return slices.Equal(reasons, want) // on a busy machine Redis may take longer than a probe may
	})
}

// The server is ready if its passes succeed and Redis replies. Otherwise /readyz reports what fails, and
// what is degraded.
func TestReady(t *testing.T) {
	w := newWorld(t, Options{Interval: 20 * time.Second, ReadyMaxLate: 10 * time.Second})
	now := time.Now().Truncate(time.Millisecond)
	w.metrics.now = func() time.Time { return now }
	w.expectReady("before the first pass", "pass")
	w.pass()
	w.expectReady("after it")
	now = now.Add(30 * time.Second)
	w.expectReady("within the interval, and some seconds")
	now = now.Add(time.Millisecond)
	w.expectReady("without a pass", "pass")
	for range 5 { // a pass that takes minutes to process a backlog
		now = now.Add(28 * time.Second)
		w.metrics.Called("due", time.Millisecond)
		now = now.Add(28 * time.Second)
		w.expectReady("in a long pass")
	}
	w.pass()

	w.Do("ZADD", "delayer:job_pool", w.Clock()-9, "job")
	w.expectReady("a little overdue")
	w.Do("ZADD", "delayer:job_pool", w.Clock()-11, "job")
	w.expectReady("overdue", "degraded: overdue")
	w.metrics.readyMaxLate = 0
	w.expectReady("overdue, which is not asked for")
	w.metrics.readyMaxLate = time.Second
	w.Do("ACL", "SETUSER", "default", "-zrange")
	if code, reasons, body := w.ready(); code != 200 || !slices.Equal(reasons, []string{"degraded: overdue"}) || !strings.Contains(body, "can't be read") {
		t.Errorf("where the pool can't be read: %d %s", code, body)
	}
	w.Do("ACL", "SETUSER", "default", "+zrange")
	w.Do("DEL", "delayer:job_pool")

	w.Kill()
	w.server.Pass(t.Context())
	w.expectReady("without Redis", "redis")
	now = now.Add(time.Minute)
	w.expectReady("without Redis for long", "redis", "pass")
	w.Restart()
	w.pass()
	w.expectReady("with Redis again")
}

// With several partitions, the worst one counts and is named.
func TestReadyOfPartitions(t *testing.T) {
	w := newWorldOf(t, 3, Options{ReadyMaxLate: 10 * time.Second})
	w.pass()
	w.Do("ZADD", "delayer:{0}:job_pool", w.Clock()-5, "job")
	w.expectReady("a little overdue")
	w.Do("ZADD", "delayer:{1}:job_pool", w.Clock()-1000, "job")
	w.Do("ZADD", "delayer:{2}:job_pool", w.Clock()-500, "job")
	if _, reasons, body := w.ready(); !slices.Equal(reasons, []string{"degraded: overdue"}) || !strings.Contains(body, "a job of partition 1 has been due for 16m") {
		t.Errorf("where partition 1 is worst: %s", body)
	}
	w.Do("SET", "delayer:{2}:job_pool", "broken")
	if code, reasons, body := w.ready(); code != 200 || !slices.Equal(reasons, []string{"degraded: redis", "degraded: overdue"}) || !strings.Contains(body, "partition 2: WRONGTYPE") {
		t.Errorf("where partition 2 is broken: %s", body)
	}
	w.Do("DEL", "delayer:{2}:job_pool")
	w.Do("ACL", "SETUSER", "default", "-zrange")
	if _, reasons, body := w.ready(); !slices.Equal(reasons, []string{"degraded: overdue"}) || !strings.Contains(body, "jobs of partition 0 have been due") {
		t.Errorf("where no partition can be read: %s", body)
	}
	for i := range 3 {
		w.Do("SET", fmt.Sprintf("delayer:{%d}:job_pool", i), "broken")
	}
	w.expectReady("where all are broken", "redis")
}

// A hanging Redis is reported as unavailable, early enough for a probe, until it replies again.
func TestReadyWhileRedisHangs(t *testing.T) {
	w := newWorld(t, Options{})
	w.pass()
	w.expectReady("at first")
	w.Hang()
	if code, _, body := w.ready(); code != 503 || !strings.Contains(body, "no response within") {
		t.Errorf("while it hangs: %d %s", code, body)
	}
	w.Continue()
	w.expectReady("later")
}

// Without the token the answer has the reasons but no details.
func TestReadyWithoutToken(t *testing.T) {
	w := newWorld(t, Options{})
	w.Kill()
	if _, _, body := w.ready(); !strings.Contains(body, w.Addr) {
		t.Errorf("who has the token is told %s", body)
	}
	for _, c := range []struct {
		method, path string
		code         int
		says         string
	}{
		{"GET", "/readyz", 503, `{"ready":false,"reasons":[{"reason":"redis"},{"reason":"pass"}]}` + "\n"},
		{"GET", "/healthz", 200, "ok\n"},
		{"HEAD", "/healthz", 200, ""},
		{"HEAD", "/readyz", 503, ""},
		{"GET", "/metrics", 401, ""},
		{"POST", "/readyz", 401, ""},
	} {
		r, answer := httptest.NewRequest(c.method, c.path, nil), httptest.NewRecorder()
		r.Host = "10.1.2.3:9277" // as a probe sends it
		w.front.ServeHTTP(answer, r)
		if answer.Code != c.code || c.says != "" && answer.Body.String() != c.says {
			t.Errorf("%s %s: without a token it says %d %q", c.method, c.path, answer.Code, answer.Body)
		}
	}
}

// However often /readyz is requested, it polls Redis at most once a second.
func TestReadyCostsRedisLittle(t *testing.T) {
	w := newWorld(t, Options{})
	w.pass()
	w.ask("GET", "/readyz")
	w.metrics.fresh = time.Hour
	calls := w.AllCalls()
	for range 100 {
		if answer := w.ask("GET", "/readyz"); answer.Code != 200 {
			t.Fatal(answer.Body)
		}
	}
	if now := w.AllCalls(); now["evalsha"]+now["eval"] != calls["evalsha"]+calls["eval"] {
		t.Errorf("100 times cost %v, after %v", now, calls)
	}
}

// The number of commands does not depend on the number of topics.
func TestReadyWithManyTopics(t *testing.T) {
	cost := func(topics int) map[string]int {
		w := newWorld(t, Options{ReadyMaxLate: 10 * time.Second})
		conn := w.pool.Get()
		defer conn.Close()
		many(t, conn, 1, topics, topics)
		w.pass()
		w.Do("CONFIG", "RESETSTAT")
		w.expectReady("with topics")
		calls := w.AllCalls()
		delete(calls, "config|resetstat")
		delete(calls, "ping")
		return calls
	}
	// The first request checks the layout (hget).
	want := map[string]int{"eval": 1, "evalsha": 1, "hget": 1, "time": 1, "zcard": 1, "zrange": 1}
	if one, more := cost(1), cost(2000); !maps.Equal(one, want) || !maps.Equal(more, want) {
		t.Errorf("with a topic %v, with 2,000 %v, want %v", one, more, want)
	}
}
