package metrics

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/inspect"
	"github.com/mix-basic/delayer/internal/store"
	"github.com/mix-basic/delayer/internal/testing/clienttest"
	"github.com/mix-basic/delayer/internal/testing/redistest"
	"github.com/mix-basic/delayer/server"
)

// Every topic gets a valid label of its own.
func FuzzLabels(f *testing.F) {
	names := []string{
		"mail", "邮件", "\xff", "\xfe", `"\xff"`, `\xff`, "other", `"other"`, `"\"other\""`, "Other", "�", "a\nb", "a\x00b", `a"b`, `a\b`, "{topic=\"x\"}", " ", "\xe9\x82",
	}
	for i, a := range names {
		for _, b := range names[i:] {
			f.Add(a, b)
		}
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		la, lb := labelOf(a), labelOf(b)
		if (a == b) != (la == lb) || la == others || (la == "") != (a == "") || !utf8.ValidString(la) {
			t.Errorf("%q and %q have the labels %q and %q", a, b, la, lb)
		}
	})
}

// The number of series is bounded for any topics. A live topic keeps its series. The other topics share one,
// which no topic can take.
func TestTopicsAreBounded(t *testing.T) {
	w := newWorld(t, Options{Topics: 3})
	moved := func(topic string) { w.metrics.Moved(topic, server.Moved{Jobs: 1}) }
	long := strings.Repeat("x", maxLabel+1)
	for _, topic := range []string{long, "z", "\xff", "other", "a", "b", "z"} {
		moved(topic)
		w.push(topic, "ready "+topic, 0)
	}
	w.push("b", "further", 0)
	w.Do("ZADD", "delayer:dead_letters:a", 1, "dead")
	s := w.scrape()
	w.expect(s, map[string]string{
		`delayer_jobs_moved_total{topic="z"}`:         "2",
		`delayer_jobs_moved_total{topic="\"\\xff\""}`: "1",
		`delayer_jobs_moved_total{topic="\"other\""}`: "1",
		`delayer_jobs_moved_total{topic="other"}`:     "3", // a, b, and the long one
		`delayer_jobs_ready{topic="z"}`:               "1",
		`delayer_jobs_ready{topic="\"other\""}`:       "1",
		`delayer_jobs_ready{topic="other"}`:           "4",
		`delayer_jobs_dead{topic="other"}`:            "1",
		`delayer_jobs_dead{topic="z"}`:                "0",
	})
	if n := len(s.series("delayer_jobs_ready")); n != 4 {
		t.Errorf("%d series of ready jobs, want 4", n)
	}
}

// A scrape that asks for it has the jobs of each topic that are due within a minute: no others, and not the reserved ones.
func TestDueSoon(t *testing.T) {
	for topics, want := range map[int]map[string]string{
		0:  {`delayer_jobs_due_soon{topic="mail"}`: "3", `delayer_jobs_due_soon{topic="ready"}`: "0", `delayer_jobs_due_soon{topic="other"}`: "0"},
		-1: {`delayer_jobs_due_soon{topic="other"}`: "3"},
	} {
		w := newWorldOf(t, 2, Options{Topics: topics})
		for i, delay := range []time.Duration{time.Second, 30 * time.Second, 50 * time.Second, 2 * time.Minute, time.Hour} {
			w.push("mail", fmt.Sprint("mail", i), delay)
		}
		w.push("ready", "r", 0)
		w.push("ready", "reserved", 0)
		if _, err := w.client.Reserve(t.Context(), 30*time.Second, "ready"); err != nil {
			t.Fatal(err)
		}
		if s := w.scrape().series("delayer_jobs_due_soon"); len(s) > 0 {
			t.Errorf("%q are there though nobody has asked for them", s)
		}
		w.expect(w.scrapeWith("?due_soon=1"), want)
		if answer := w.ask("GET", "/metrics?due_soon=yes"); answer.Code != 400 || !strings.Contains(answer.Body.String(), "due_soon: want 1") {
			t.Errorf("%d %s", answer.Code, answer.Body)
		}
	}
}

// The label of a dead topic goes to the live topic used last. The dead topic's counters end, and start over
// when it comes back. The counters of other topics never decrease.
func TestLabelsGoToTheLiving(t *testing.T) {
	w := newWorld(t, Options{Topics: 2})
	moved := func(topic string, jobs int) { w.metrics.Moved(topic, server.Moved{Jobs: jobs}) }
	at := func(topic string, used int) { w.Do("ZADD", "delayer:topics", used, topic) }
	for topic, used := range map[string]int{"dead": 1, "b": 2, "a": 3, "c": 4} {
		at(topic, used)
	}
	moved("dead", 5)
	moved("b", 1)
	moved("a", 1) // counted under the shared label
	for range 2 { // a live topic keeps its label
		w.expect(w.scrape(), map[string]string{
			`delayer_jobs_moved_total{topic="dead"}`: "5", `delayer_jobs_moved_total{topic="b"}`: "1", `delayer_jobs_moved_total{topic="other"}`: "1",
			`delayer_jobs_ready{topic="dead"}`: "0", `delayer_jobs_ready{topic="b"}`: "0", `delayer_jobs_ready{topic="c"}`: "",
			`delayer_topics`: "4",
		})
	}
	moved("dead", 1)
	w.Do("ZREM", "delayer:topics", "dead")
	w.expect(w.scrape(), map[string]string{ // counted since then
		`delayer_jobs_moved_total{topic="dead"}`: "6", `delayer_jobs_ready{topic="dead"}`: "", `delayer_jobs_ready{topic="c"}`: "",
	})
	w.expect(w.scrape(), map[string]string{`delayer_jobs_ready{topic="c"}`: "0", `delayer_jobs_ready{topic="a"}`: ""})
	moved("dead", 3)
	moved("c", 2)
	w.expect(w.scrape(), map[string]string{
		`delayer_jobs_moved_total{topic="dead"}`: "", `delayer_jobs_moved_total{topic="c"}`: "2", `delayer_jobs_moved_total{topic="other"}`: "4",
	})
	w.Do("ZREM", "delayer:topics", "b", "c")
	w.scrape()
	w.scrape()
	moved("dead", 7)
	w.expect(w.scrape(), map[string]string{`delayer_jobs_moved_total{topic="dead"}`: "7", `delayer_jobs_moved_total{topic="other"}`: "4"})

	w.Kill() // losing Redis does not make topics dead
	w.scrape()
	w.scrape()
	w.expect(w.scrape(), map[string]string{`delayer_jobs_moved_total{topic="dead"}`: "7"})
}

// With very many topics, the topics used last are counted, as many as may have labels.
func TestScrapeOfManyTopics(t *testing.T) {
	const labels = inspect.MostTopics + 5
	w := newWorld(t, Options{Topics: labels})
	w.Do("EVAL", `for i = 1, ARGV[1] do
		redis.call('ZADD', 'delayer:topics', i, 't' .. i)
		redis.call('LPUSH', 'delayer:ready_queue:t' .. i, 'ghost')
	end`, 0, labels+2)
	var s scrape
	redistest.Until(t, "Redis is read within a scrape's time", func() bool { // seconds, of which a busy machine needs some
		s = w.scrape()
		return s.value("delayer_redis_up") == "1"
	})
	if n := strings.Count(string(s), "\ndelayer_jobs_ready{"); n != labels || s.value(fmt.Sprintf(`delayer_jobs_ready{topic="t%d"}`, labels+2)) != "1" {
		t.Errorf("%d topics are counted, want %d", n, labels)
	}
}

// The shared series shows the most overdue topic and skips unreadable values.
func TestOthersTogether(t *testing.T) {
	few := newTopics(1)
	few.add("first")
	counts := []inspect.TopicCounts{
		{Topic: "a", Ready: 1, Reserved: 2, Dead: inspect.Unknown, Overdue: 3 * time.Second, AtLeast: 3 * time.Second},
		{Topic: "b", Ready: inspect.Unknown, Reserved: 5, Dead: inspect.Unknown, Overdue: inspect.Unknown, AtLeast: 9 * time.Second},
		{Topic: "c", Ready: 4, Reserved: 0, Dead: inspect.Unknown, Overdue: inspect.Unknown, AtLeast: inspect.Unknown},
		{Topic: "first", Ready: 7, Reserved: inspect.Unknown, Dead: 1, Overdue: 0},
	}
	var got []string
	for _, f := range few.gauges(counts) {
		for _, series := range f.Metric {
			got = append(got, fmt.Sprint(f.GetName(), " ", series.Label[0].GetValue(), " ", series.Gauge.GetValue()))
		}
	}
	want := []string{
		"delayer_jobs_ready first 7", "delayer_jobs_ready other 5",
		"delayer_jobs_reserved other 7",
		"delayer_jobs_dead first 1",
		"delayer_ready_oldest_overdue_seconds first 0", "delayer_ready_oldest_overdue_seconds other 9",
		"delayer_ready_overdue_unknown other 1",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// Concurrent callers get the same topic for a name, and the bound holds.
func TestTopicsAtOnce(t *testing.T) {
	few := newTopics(10)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for n := range 1000 {
				few.count(fmt.Sprint(n%50), func(t *topic) { t.moved++ })
				few.counters()
			}
		})
	}
	all.Wait()
	moved, total := few.counters()[1], 0.0
	for _, series := range moved.Metric {
		total += series.Counter.GetValue()
	}
	if len(moved.Metric) != 11 || total != 8000 {
		t.Errorf("%d topics have %v jobs", len(moved.Metric), total)
	}
}

// Runs of schedules are counted, with zeros before the first.
func TestSchedulesAreCounted(t *testing.T) {
	w := newWorld(t, Options{})
	w.expect(w.scrape(), map[string]string{
		`delayer_schedule_jobs_total`: "0", `delayer_schedule_occurrences_without_job_total{reason="late"}`: "0",
		`delayer_schedule_occurrences_without_job_total{reason="overlapped"}`: "0", `delayer_schedule_occurrences_without_job_total{reason="paused"}`: "0",
		`delayer_schedule_lateness_seconds_count`: "0",
	})
	w.metrics.Fired(server.Fired{Schedule: "a", Jobs: 2, Late: 5, After: 300 * time.Millisecond})
	w.metrics.Fired(server.Fired{Schedule: "a", Overlapped: 1, Paused: 3})
	w.expect(w.scrape(), map[string]string{
		`delayer_schedule_jobs_total`: "2", `delayer_schedule_occurrences_without_job_total{reason="late"}`: "5",
		`delayer_schedule_occurrences_without_job_total{reason="overlapped"}`: "1", `delayer_schedule_occurrences_without_job_total{reason="paused"}`: "3",
		`delayer_schedule_lateness_seconds_count`: "1", `delayer_schedule_lateness_seconds_bucket{le="0.5"}`: "1", `delayer_schedule_lateness_seconds_bucket{le="0.2"}`: "0",
	})
}

// Schedules are counted by state. The most overdue active schedule sets the lateness; paused schedules do
// not count.
func TestSchedulesAreTold(t *testing.T) {
	w := newWorldOf(t, 3, Options{})
	w.expect(w.scrape(), map[string]string{
		`delayer_schedules{state="active"}`: "0", `delayer_schedules{state="paused"}`: "0", `delayer_schedules{state="ended"}`: "0", `delayer_schedule_overdue_seconds`: "0",
	})
	schedule := func(name string, fields ...any) {
		_, err := w.client.Schedules().Set(t.Context(), client.Schedule{Name: name, Every: time.Hour, Topic: "t", Body: "b"})
		check(t, err)
		if len(fields) > 0 {
			key := fmt.Sprintf("delayer:{%d}:job_bucket:%s", store.PartitionOf(store.ScheduleID(name), 3), store.ScheduleID(name))
			w.Do("HSET", append([]any{key}, fields...)...)
		}
	}
	at := time.Now()
	schedule("fine")
	schedule("late", "next", at.Add(-time.Hour).UnixMilli())
	schedule("paused", "next", at.Add(-24*time.Hour).UnixMilli(), "paused", 1)
	schedule("ended", "next", "")
	s := w.scrape()
	w.expect(s, map[string]string{`delayer_schedules{state="active"}`: "2", `delayer_schedules{state="paused"}`: "1", `delayer_schedules{state="ended"}`: "1"})
	overdue, err := strconv.ParseFloat(s.value("delayer_schedule_overdue_seconds"), 64)
	if least := time.Since(at) + time.Hour; err != nil || overdue < 3600 || overdue > (least+time.Second).Seconds() {
		t.Errorf("the latest is overdue by %v s, %v", overdue, err)
	}
	w.Kill()
	if got := w.scrape().value(`delayer_schedules{state="active"}`); got != "" {
		t.Errorf("without Redis there are %s schedules", got)
	}
}

// Without permission to read schedules, everything else is present.
func TestSchedulesWithoutRights(t *testing.T) {
	w := newWorld(t, Options{})
	_, err := w.client.Schedules().Set(t.Context(), client.Schedule{Name: "a", Every: time.Hour, Topic: "t", Body: "b"})
	check(t, err)
	w.SetUser(redistest.Rights(t, "daemon", "operator") + " resetkeys ~delayer:[^s]*")
	w.metrics.inspector = inspect.New(clienttest.Jobs(client.UsePool(w.UserPool(), 1), ""))
	w.expect(w.scrape(), map[string]string{`delayer_redis_up`: "1", `delayer_schedules{state="active"}`: "", `delayer_schedule_overdue_seconds`: "", "delayer_topics_paused": "0"})
}
