package metrics

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/store"
)

func (s scrape) number(tb testing.TB, series string) float64 {
	tb.Helper()
	n, err := strconv.ParseFloat(s.value(series), 64)
	if err != nil {
		tb.Fatalf("%s: %v", series, err)
	}
	return n
}

// The answer is compressed only for clients that accept compression.
func TestScrapeCompressed(t *testing.T) {
	w := newWorld(t, Options{})
	for n := range 100 {
		w.push(fmt.Sprint("topic", n), fmt.Sprint(n), 0)
	}
	for accept, want := range map[string]string{"deflate, gzip;q=0.5": "gzip", "": "", "gzip;q=0": ""} {
		r, answer := httptest.NewRequest("GET", "/metrics", nil), httptest.NewRecorder()
		r.Header.Set("Accept-Encoding", accept)
		w.metrics.Area().Handler.ServeHTTP(answer, r)
		body := io.Reader(answer.Body)
		if got := answer.Header().Get("Content-Encoding"); got != want {
			t.Errorf("to %q: encoding %q, want %q", accept, got, want)
		} else if got == "gzip" {
			unzipped, err := gzip.NewReader(body)
			check(t, err)
			body = unzipped
		}
		text, err := io.ReadAll(body)
		if s := scrape(text); err != nil || s.value(`delayer_redis_up`) != "1" || len(s.series(`delayer_jobs_dead{topic="topic`)) != 100 {
			t.Errorf("to %q: %d bytes, %v", accept, len(text), err)
		}
	}
}

// scraped is what TestScrape scrapes.
var scraped = map[string]string{
	`delayer_jobs_waiting`:                                "1",
	`delayer_jobs_ready{topic="mail"}`:                    "1",
	`delayer_jobs_ready{topic="sms"}`:                     "1",
	`delayer_jobs_ready{topic="later"}`:                   "0",
	`delayer_jobs_reserved{topic="mail"}`:                 "1",
	`delayer_jobs_reserved{topic="sms"}`:                  "0",
	`delayer_jobs_dead{topic="mail"}`:                     "1",
	`delayer_jobs_dead{topic="sms"}`:                      "0",
	`delayer_jobs_pushed_total{topic="mail"}`:             "5",
	`delayer_jobs_pushed_total{topic="sms"}`:              "0",
	`delayer_jobs_moved_total{topic="sms"}`:               "1",
	`delayer_jobs_moved_total{topic="mail"}`:              "1",
	`delayer_leases_returned_total{topic="mail"}`:         "1",
	`delayer_leases_returned_total{topic="sms"}`:          "0",
	`delayer_jobs_dropped_total`:                          "1",
	`delayer_jobs_acked_total`:                            "1",
	`delayer_oldest_overdue_seconds`:                      "0",
	`delayer_ready_oldest_overdue_seconds{topic="later"}`: "0",
	`delayer_redis_up`:                                    "1",
	`delayer_servers`:                                     "0",
	`delayer_errors_total{kind="unreachable"}`:            "0",
	`delayer_errors_total{kind="refused"}`:                "0",
	`delayer_errors_total{kind="redis"}`:                  "0",
	`delayer_job_lateness_seconds_count`:                  "2",
	`delayer_job_lateness_seconds_bucket{le="10"}`:        "0",
	`delayer_job_lateness_seconds_bucket{le="600"}`:       "1",
	`delayer_job_lateness_seconds_bucket{le="+Inf"}`:      "2",
	`delayer_pass_duration_seconds_count`:                 "2",
}

// Each metric reflects what happened.
func TestScrape(t *testing.T) {
	w := newWorld(t, Options{Version: "1.2.3"})
	before := w.Clock()
	for _, id := range []string{"a", "b", "c", "d"} {
		w.push("mail", id, 0)
	}
	w.push("later", "e", time.Hour)
	w.Do("HMSET", "delayer:job_bucket:late", "topic", "sms", "body", "x")
	w.Do("EXPIRE", "delayer:job_bucket:late", 1000)
	w.Do("ZADD", "delayer:job_pool", math.Floor(before)-30, "late")
	w.Do("ZADD", "delayer:job_pool", 1, "orphan")
	s := w.scrape()
	if late := s.number(t, "delayer_oldest_overdue_seconds"); late < 1e9 {
		t.Errorf("the orphan is overdue for %v s", late)
	}
	w.pass()

	lease := func() *client.Delivery {
		d, err := w.client.Reserve(t.Context(), time.Minute, "mail")
		check(t, err)
		return d
	}
	check(t, lease().Ack(t.Context()))
	check(t, lease().Bury(t.Context(), errors.New("broken")))
	lease()
	ended := lease() // its consumer dies
	w.Do("ZADD", "delayer:job_pool", "1000.0005", ended.ID)
	w.metrics.Pushed("mail", 2)
	w.metrics.Pushed("mail", 3)
	w.pass()

	s = w.scrape()
	w.expect(s, scraped)
	if late := s.number(t, "delayer_job_lateness_seconds_sum"); late < before-1000+30 || late > w.Clock()-1000+32 {
		t.Errorf("late by %v s in all", late)
	}
	if n := s.number(t, `delayer_script_duration_seconds_count{script="due"}`); n < 2 {
		t.Errorf("%v look-ups", n)
	}
	if len(s.series("delayer_build_info{")) != 1 || !strings.Contains(string(s), `version="1.2.3"`) || s.value("go_goroutines") == "" || s.value("process_start_time_seconds") == "" {
		t.Error("nothing of the program, Go or the process")
	}
}

// Each partition has its own metrics. Metrics of an unreadable partition are missing, also from the
// totals.
func TestScrapeOfPartitions(t *testing.T) {
	w := newWorldOf(t, 3, Options{})
	for _, id := range []string{"0", "1", "2", "3", "4"} { // in partitions 2, 2, 0, 0 and 0
		w.push("mail", id, time.Hour)
	}
	w.Do("ZADD", "delayer:{1}:job_pool", math.Floor(w.Clock())-30, "lease")
	w.Do("LPUSH", "delayer:{0}:ready_queue:mail", "a", "b")
	w.Do("HSET", "delayer:{1}:reserved", "mail", 1)
	w.Do("ZADD", "delayer:{1}:topics", 0, "mail")
	w.Do("ZADD", "delayer:{2}:dead_letters:mail", 1, "d")
	s := w.scrape()
	w.expect(s, map[string]string{
		`delayer_partition_waiting{partition="0"}`:         "3",
		`delayer_partition_waiting{partition="1"}`:         "0",
		`delayer_partition_waiting{partition="2"}`:         "2",
		`delayer_partition_ready{partition="0"}`:           "2",
		`delayer_partition_reserved{partition="1"}`:        "1",
		`delayer_partition_dead{partition="2"}`:            "1",
		`delayer_partition_overdue_seconds{partition="2"}`: "0",
		`delayer_jobs_waiting`:                             "5",
		`delayer_jobs_dead{topic="mail"}`:                  "1",
	})
	worst := s.number(t, `delayer_partition_overdue_seconds{partition="1"}`)
	if all := s.number(t, "delayer_oldest_overdue_seconds"); worst < 30 || worst > 60 || all != worst {
		t.Errorf("partition 1 is overdue by %v s, all by %v", worst, all)
	}

	w.Do("SET", "delayer:{2}:dead_letters:mail", "broken")
	w.expect(w.scrape(), map[string]string{
		`delayer_partition_dead{partition="1"}`: "0",
		`delayer_partition_dead{partition="2"}`: "",
		`delayer_jobs_dead{topic="mail"}`:       "",
	})
	w.Do("DEL", "delayer:{0}:job_pool")
	w.Do("SET", "delayer:{0}:job_pool", "broken")
	w.expect(w.scrape(), map[string]string{
		`delayer_redis_up`:                         "1",
		`delayer_partition_up{partition="0"}`:      "0",
		`delayer_partition_up{partition="1"}`:      "1",
		`delayer_partition_waiting{partition="0"}`: "",
		`delayer_jobs_waiting`:                     "2",
		`delayer_jobs_ready{topic="mail"}`:         "0",
	})
	if one := newWorld(t, Options{}).scrape().series("delayer_partition"); len(one) > 0 {
		t.Errorf("a single partition has %q", one)
	}
}

// Without Redis the scrape has this process's counters and no stale values.
func TestScrapeWithoutRedis(t *testing.T) {
	w := newWorld(t, Options{})
	w.push("mail", "a", time.Hour)
	w.Do("ZADD", "delayer:job_pool", 1, "a")
	w.pass()
	ofRedis := append(w.scrape().series("delayer_jobs_ready"), w.scrape().series("delayer_jobs_waiting")...)
	if len(ofRedis) != 2 {
		t.Fatal(ofRedis)
	}
	w.Kill()
	if err := w.server.Pass(t.Context()); err == nil {
		t.Fatal("a pass without Redis succeeded")
	}
	s := w.scrape()
	w.expect(s, map[string]string{
		`delayer_redis_up`:                         "0",
		`delayer_errors_total{kind="unreachable"}`: "1",
		`delayer_jobs_moved_total{topic="mail"}`:   "1",
	})
	for line := range strings.Lines(string(s)) {
		if strings.HasPrefix(line, "# HELP") && strings.Contains(line, strings.TrimSpace(wholeRedis)) {
			t.Errorf("still there: %s", line)
		}
	}
	w.Restart()
	w.expect(w.scrape(), map[string]string{"delayer_redis_up": "1", "delayer_jobs_waiting": "0"})
}

// A hanging Redis delays a scrape no longer than its timeout.
func TestScrapeWhileRedisHangs(t *testing.T) {
	w := newWorld(t, Options{})
	w.expect(w.scrape(), map[string]string{"delayer_redis_up": "1"})
	w.Hang()
	w.expect(w.scrape(), map[string]string{"delayer_redis_up": "0"})
	w.Continue()
	w.expect(w.scrape(), map[string]string{"delayer_redis_up": "1"})
}

func TestErrorKinds(t *testing.T) {
	for _, c := range []struct {
		err  error
		kind string
	}{
		{redis.Error("NOAUTH Authentication required."), refused},
		{redis.Error("NOPERM this user has no permissions"), refused},
		{redis.Error("WRONGTYPE Operation against a key"), otherAnswer},
		{redis.Error("LOADING Redis is loading the dataset in memory"), otherAnswer},
		{os.ErrDeadlineExceeded, unreachable},
		{errors.New("connection refused"), unreachable},
	} {
		if kind := kindOf(c.err); kind != c.kind {
			t.Errorf("%v is %s, want %s", c.err, kind, c.kind)
		}
	}
}

// If Redis loses its counter, the metric still never decreases.
func TestAckedNeverGoesBack(t *testing.T) {
	w := newWorld(t, Options{})
	acked := func(n int) string {
		w.Do("SET", "delayer:acked", n)
		return w.scrape().value("delayer_jobs_acked_total")
	}
	got := []string{acked(1000), acked(1010), acked(1007), acked(1009), acked(0), acked(5)}
	if want := []string{"1000", "1010", "1010", "1012", "1012", "1017"}; !slices.Equal(got, want) {
		t.Errorf("got %s, want %s", got, want)
	}
	w.Do("SET", "delayer:acked", "many")
	w.expect(w.scrape(), map[string]string{"delayer_jobs_acked_total": "", "delayer_redis_up": "1"})
	if n := acked(6); n != "1018" {
		t.Errorf("got %s, want 1018", n)
	}
}

// A running server counts, a killed one does not.
func TestServers(t *testing.T) {
	w := newWorld(t, Options{})
	w.expect(w.scrape(), map[string]string{"delayer_servers": "0"})
	for _, id := range []string{"one", "two"} {
		_, err := store.New(w.pool, "delayer:").Heartbeat(store.ServerState{ID: id, Interval: time.Second}, 1, 0).Do(t.Context())
		check(t, err)
	}
	w.expect(w.scrape(), map[string]string{"delayer_servers": "2"})
	w.Do("HSET", "delayer:servers", "two", `{"now":1,"started":1,"interval":1000,"lateness":[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0]}`)
	w.expect(w.scrape(), map[string]string{"delayer_servers": "1"})
}

// A scrape costs Redis a few cheap commands per topic, independent of the number of jobs.
func TestScrapeCostsRedisLittle(t *testing.T) {
	cheap := map[string]bool{ // O(1), except one page of topics and the reserved counts
		"evalsha": true, "time": true, "zcard": true, "zrange": true, "hmget": true, "llen": true, "lindex": true,
		"zscore": true, "pttl": true, "get": true, "hrandfield": true, "hlen": true, "hvals": true, "exists": true,
	}
	const topics = 300
	cost := func(jobs int) map[string]int {
		w := newWorld(t, Options{})
		conn := w.pool.Get()
		defer conn.Close()
		many(t, conn, jobs, topics, topics)
		w.scrape() // loads the scripts
		w.Do("CONFIG", "RESETSTAT")
		w.scrape()
		calls := w.AllCalls()
		delete(calls, "config|resetstat")
		delete(calls, "info")
		return calls
	}
	few, more := cost(1000), cost(10000)
	if !maps.Equal(few, more) {
		t.Errorf("with 1,000 jobs %v, with 10,000 %v", few, more)
	}
	total := 0
	for command, n := range few {
		total += n
		if !cheap[command] {
			t.Errorf("%s is called", command)
		}
	}
	if few["hvals"] != 1 || total > 10*topics {
		t.Errorf("%d commands for %d topics: %v", total, topics, few)
	}
}
