package metrics

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/inspect"
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

// Valid names are used as labels unchanged; others are quoted.
func TestLabels(t *testing.T) {
	for name, want := range map[string]string{"mail": "mail", "邮件": "邮件", "other": `"other"`, "\xff": `"\xff"`} {
		if got := labelOf(name); got != want {
			t.Errorf("%q has the label %q, want %q", name, got, want)
		}
	}
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
		if _, err := w.client.Reserve(t.Context(), time.Second, 30*time.Second, "ready"); err != nil {
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

// With very many topics, the topics used last are examined, at least as many as may have labels.
func TestScrapeOfManyTopics(t *testing.T) {
	for labels, want := range map[int]int{5: inspect.MostTopics, inspect.MostTopics + 5: inspect.MostTopics + 5} {
		w := newWorld(t, Options{Topics: labels})
		w.Do("EVAL", `for i = 1, ARGV[1] do
			redis.call('ZADD', 'delayer:topics', i, 't' .. i)
			redis.call('LPUSH', 'delayer:ready_queue:t' .. i, 'ghost')
		end`, 0, inspect.MostTopics+7)
		s, ready := w.scrape(), 0
		for line := range strings.Lines(string(s)) {
			if strings.HasPrefix(line, "delayer_jobs_ready{") {
				n, _ := strconv.Atoi(strings.TrimSpace(line[strings.LastIndexByte(line, ' ')+1:]))
				ready += n
			}
		}
		last := fmt.Sprintf(`delayer_jobs_ready{topic="t%d"}`, inspect.MostTopics+7)
		if ready != want || s.value(last) != "1" || s.value("delayer_topics") != fmt.Sprint(inspect.MostTopics+7) {
			t.Errorf("with %d labels %d are counted of %s, want %d", labels, ready, s.value("delayer_topics"), want)
		}
	}
}

// If the age of the next job is unknown, a metric reports that, and the series has the lower bound.
func TestOverdueUnknown(t *testing.T) {
	w := newWorld(t, Options{Topics: 2})
	ghosts := func(topic string) {
		w.Do("EVAL", `for i = 1, 60 do redis.call('LPUSH', KEYS[1], 'ghost' .. i) end`, 1, "delayer:ready_queue:"+topic)
	}
	w.push("well", "w", 0)
	ghosts("t")
	w.push("t", "a", 0)
	w.Do("EXPIRE", "delayer:job_bucket:a", 0.5*client.DefaultReadyMaxLifetime.Seconds())
	s := w.scrape()
	w.expect(s, map[string]string{`delayer_ready_overdue_unknown{topic="t"}`: "1", `delayer_ready_overdue_unknown{topic="well"}`: "", `delayer_jobs_ready{topic="t"}`: "61"})
	if seconds, err := strconv.ParseFloat(s.value(`delayer_ready_oldest_overdue_seconds{topic="t"}`), 64); err != nil || seconds < 302400 || seconds > 302460 {
		t.Errorf("overdue by %v, %v", seconds, err)
	}
	for _, topic := range []string{"u", "v"} {
		ghosts(topic)
		w.push(topic, topic, 0)
	}
	if got := w.scrape().series("delayer_ready_overdue_unknown"); !slices.Equal(got, []string{`delayer_ready_overdue_unknown{topic="other"}`, `delayer_ready_overdue_unknown{topic="t"}`}) &&
		!slices.Equal(got, []string{`delayer_ready_overdue_unknown{topic="t"}`, `delayer_ready_overdue_unknown{topic="other"}`}) {
		t.Errorf("unknown of %q", got)
	}
	w.Do("LTRIM", "delayer:ready_queue:t", 0, 0)
	w.expect(w.scrape(), map[string]string{`delayer_ready_overdue_unknown{topic="t"}`: ""})
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
	done := make(chan bool)
	for range 8 {
		go func() {
			defer func() { done <- true }()
			for n := range 1000 {
				few.count(fmt.Sprint(n%50), func(t *topic) { t.moved++ })
				few.counters()
			}
		}()
	}
	for range 8 {
		<-done
	}
	moved, total := few.counters()[1], 0.0
	for _, series := range moved.Metric {
		total += series.Counter.GetValue()
	}
	if len(moved.Metric) != 11 || total != 8000 {
		t.Errorf("%d topics have %v jobs", len(moved.Metric), total)
	}
}
