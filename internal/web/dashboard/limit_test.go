package dashboard

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/store"
	"github.com/mix-basic/delayer/internal/testing/redistest"
	"github.com/mix-basic/delayer/internal/web"
)

// limit returns the topic's limit.
func (f *fixture) limit(t *testing.T, topic string) client.Limit {
	t.Helper()
	stats, err := f.Stats(t.Context())
	redistest.Check(t, err)
	for _, of := range stats.Topics {
		if of.Topic == topic {
			return of.Limit
		}
	}
	return client.Limit{}
}

// A topic's page shows its limit, its use, the throttled jobs and the end of the throttling. The overview
// and the list of topics show them, too.
func TestLimitedTopic(t *testing.T) {
	f := start(t, web.Options{})
	path := link("/ui/topic", "topic", "<mail>")
	for i := range 5 {
		f.push("<mail>", fmt.Sprint("job", i), "body", 0)
	}
	f.push("free", "other", "body", 0)
	got := f.get(path)
	got.has(t, "one without a limit", http.StatusOK, `action="ui/act/limit"`, `data-do="limit">Limit<`)
	got.lacks(t, "one without a limit", `id="limited"`, `data-do="end_limit"`)
	f.get("/").lacks(t, "without limits", `id="slowed"`)

	f.follow(f.post("/ui/act/limit", "topic", "<mail>", "concurrency", " 2 ", "rate", "90/m", "burst", "4", "tag", "<b>")).
		has(t, "set", http.StatusOK, "The topic is limited.")
	if l := f.limit(t, "<mail>"); l != (client.Limit{Concurrency: 2, Rate: 1.5, Burst: 4, Tag: "<b>"}) {
		t.Fatalf("the limit is %+v", l)
	}
	f.get(path).has(t, "limited", http.StatusOK, `id="limited"`, `limit 2; in use 0`, `1.5/s, burst 4`, `id="tag"><bdi>&lt;b&gt;`, `data-throttled="0"`,
		`value="2"`, `value="1.5/s"`, `value="4"`, `value="&lt;b&gt;"`, "Change the limit")
	f.reserve("<mail>")
	f.reserve("<mail>")
	f.get(path).has(t, "full", http.StatusOK, `data-taken="2"`, `data-throttled="3"`, "until a slot is free")
	f.get("/").has(t, "overview", http.StatusOK, `id="slowed"`, `data-limited>2 at a time, 1.5/s, burst 4`, `<strong>3</strong>`)
	f.get("/ui/topics").has(t, "topics", http.StatusOK, `data-limited title="2 at a time, 1.5/s, burst 4">throttled: 3<`)
	f.get("/?lang=zh").has(t, "chinese", http.StatusOK, "同时 2 个, 1.5/s, 突发 4 个")

	f.follow(f.post("/ui/act/end_limit", "topic", "<mail>")).has(t, "ended", http.StatusOK, "The limit was removed")
	f.get(path).lacks(t, "ended", `id="limited"`)
	f.get("/ui/topics").lacks(t, "ended", `data-limited`)
}

// The page of a topic throttled by its rate shows the end of the throttling.
func TestThrottledByRate(t *testing.T) {
	f := start(t, web.Options{})
	for i := range 3 {
		f.push("mail", fmt.Sprint("job", i), "body", 0)
	}
	check(t, f.SetLimit(t.Context(), "mail", client.Limit{Rate: 1.0 / 3600}))
	f.reserve("mail")
	defer redistest.Background(t, func(ctx context.Context) error {
		if d, err := f.Reserve(ctx, time.Minute, "mail"); err == nil {
			t.Errorf("beyond the rate %v is reserved", d)
		}
		return nil
	})()
	eventually(t, "the rate has held one back", func() bool {
		return strings.Contains(f.get(link("/ui/topic", "topic", "mail")).body, `data-throttled="2"`)
	})
	f.dashboard.touch()
	f.get(link("/ui/topic", "topic", "mail")).has(t, "topic", http.StatusOK, `id="rate">1/h<`, `data-throttled="2"`, "until <time", "in 59 min")
	f.get("/").has(t, "overview", http.StatusOK, `<strong>2</strong> until <time`)
}

// An invalid limit is refused with a reason and stays in the form.
func TestWrongLimit(t *testing.T) {
	r := redistest.Start(t)
	f := startWith(t, web.Options{}, r, r.Addr, 4)
	for _, c := range []struct{ concurrency, rate, burst, tag, says, field string }{
		{"", "", "", "", "enter a concurrency, a rate", "concurrency"},
		{"0", "", "", "", "concurrency &#34;0&#34;", "concurrency"},
		{"4", "fast", "", "", "rate &#34;fast&#34;", "rate"},
		{"", "1/s", "-3", "", "burst &#34;-3&#34;", "burst"},
		{"", "1/s", "2000000", "", "burst &#34;2000000&#34;: want a whole number from 1 to 1,000,000", "burst"},
		{"4", "", "3", "", "burst 3: it has no effect without a rate", "burst"},
		{"3", "", "", "", "with several partitions at least one for each", "concurrency"},
		{"", "2000000/s", "", "", "from 1/d to 1000000/s", "rate"},
		{"4", "", "", "{x}", "tag &#34;{x}&#34;: want a text of at most 250 bytes without braces", "tag"},
	} {
		got := f.post("/ui/act/limit", "topic", "mail", "concurrency", c.concurrency, "rate", c.rate, "burst", c.burst, "tag", c.tag)
		got.has(t, fmt.Sprint(c), http.StatusBadRequest, `id="problem"`, c.says, `id="limit" open`)
		got.lacks(t, fmt.Sprint(c), `id="partly"`, `id="pause" open`, "set limit")
		got.marks(t, fmt.Sprint(c), c.field)
		for _, typed := range []string{c.concurrency, c.rate, c.burst, c.tag} {
			if !strings.Contains(got.body, ` value="`+typed+`"`) {
				t.Errorf("%v: %q is not in its field", c, typed)
			}
		}
	}
	if l := f.limit(t, "mail"); l != (client.Limit{}) {
		t.Errorf("there is a limit: %+v", l)
	}
	for _, least := range []client.Limit{{Concurrency: 4}, {Rate: 1, Burst: 1}} {
		typed := []string{"topic", "mail", "rate", "1/s", "burst", "1"}
		if least.Rate == 0 {
			typed = []string{"topic", "mail", "concurrency", "4"}
		}
		f.post("/ui/act/limit", typed...)
		if l := f.limit(t, "mail"); l != least {
			t.Errorf("%v: the limit is %+v", typed, l)
		}
		got := f.get(link("/ui/topic", "topic", "mail"))
		if field := map[bool]string{true: "concurrency", false: "burst"}[least.Concurrency == 0]; !regexp.MustCompile(`name="` + field + `"[^>]* value=""`).MatchString(got.body) {
			t.Errorf("%v: the field of the %s is not empty", typed, field)
		}
	}
	f.send("POST", "/ui/act/limit", "topic="+pack("mail")+"&concurrency=x", "Content-Type", "application/x-www-form-urlencoded", "Cookie", "delayer_lang=zh").
		has(t, "chinese", http.StatusBadRequest, "应为 1 至 1,000,000 的整数")
}

// The overview also shows paused topics without jobs, and does not blame their consumers.
func TestSlowedTopics(t *testing.T) {
	f := start(t, web.Options{})
	for _, topic := range []string{"paused", "held", "neglected"} {
		f.push(topic, "a "+topic, "b", 0)
		f.push(topic, "b "+topic, "b", 0)
		f.Do("PEXPIRE", "delayer:job_bucket:a "+topic, 604800000-3600000) // ready for an hour
		f.Do("PEXPIRE", "delayer:job_bucket:b "+topic, 604800000-3600000)
	}
	f.get("/").has(t, "before", http.StatusOK, "No consumer is listening", `data-level="warn"`)
	check(t, f.Pause(t.Context(), "paused", client.PauseOptions{Note: "<i>why"}))
	check(t, f.Pause(t.Context(), "empty", client.PauseOptions{For: time.Hour}))
	check(t, f.SetLimit(t.Context(), "held", client.Limit{Concurrency: 1}))
	f.reserve("held")
	f.dashboard.touch()
	got := f.get("/")
	status, _, _ := strings.Cut(got.body, `data-part="numbers"`)
	_, rest, _ := strings.Cut(got.body, `data-part="slowed"`)
	if !strings.Contains(status, "neglected</bdi>") || strings.Contains(status, "held</bdi>") || strings.Contains(status, "paused</bdi>") {
		t.Errorf("the status is %s", status)
	}
	table, _, _ := strings.Cut(rest, `data-part="coming"`)
	if rows := (response{body: table}).named("data-row"); strings.Join(rows, " ") != "empty paused held" {
		t.Errorf("shown are %q", rows)
	}
	response{got.status, nil, table}.has(t, "the table", http.StatusOK, "no end", "&lt;i&gt;why", "until <time", "1 at a time", "<strong>1</strong>")
	f.get("/ui/live.json").has(t, "live", http.StatusOK, `"slowed":"\u003cdiv`)

	for i := range 30 {
		check(t, f.Pause(t.Context(), fmt.Sprint("more", i), client.PauseOptions{}))
	}
	f.dashboard.touch()
	f.get("/").has(t, "many", http.StatusOK, "and 13 more")
}

// Jobs without their limit's tag are reported in the status line and on the topic's page.
func TestUntaggedTopic(t *testing.T) {
	r := redistest.Start(t)
	f := startWith(t, web.Options{}, r, r.Addr, 16)
	check(t, f.SetLimit(t.Context(), "mail", client.Limit{Concurrency: 16, Tag: "vip"}))
	elsewhere := 0
	for i := range 20 {
		f.push("mail", fmt.Sprint(i), "body", 0)
		if store.PartitionOf(fmt.Sprint(i), 16) != store.PartitionOf("{vip}", 16) {
			elsewhere++
		}
	}
	f.get("/").has(t, "overview", http.StatusOK, `data-level="warn"`, "Some jobs will not be delivered", fmt.Sprintf("mail</bdi></a> (%d)", elsewhere))
	path := link("/ui/topic", "topic", "mail")
	f.get(path).has(t, "topic", http.StatusOK, fmt.Sprintf(`data-untagged="%d"`, elsewhere), "will not be delivered", `data-throttled="0"`)
	check(t, f.SetLimit(t.Context(), "mail", client.Limit{Concurrency: 16}))
	f.get(path).lacks(t, "topic without a tag", `id="untagged"`)
}

// Paused topics come first, then those with most throttled jobs.
func TestSlowedOrder(t *testing.T) {
	s := &state{Pauses: []store.Pause{{Topic: "p"}, {Topic: "q"}}}
	limit := store.Limit{Concurrency: 1}
	s.Topics = []store.TopicCounts{{Topic: "a", Limit: limit}, {Topic: "b", Limit: limit, Throttled: 2}, {Topic: "free", Ready: 9}, {Topic: "q", Limit: limit, Throttled: 1}}
	var order []string
	for _, row := range slowedOf(s) {
		order = append(order, row.Topic)
	}
	if got := strings.Join(order, " "); got != "q p b a" {
		t.Errorf("the order is %s", got)
	}
	if slowedOf(&state{Counts: s.Counts}) == nil || slowedOf(&state{}) != nil {
		t.Error("there is no table, or an empty one")
	}
}

// A topic's page and the list of topics show why nothing is delivered, and until when.
func TestPausedTopic(t *testing.T) {
	f := start(t, web.Options{})
	f.push("topic", "ready1", "body", 0)
	f.push("other", "ready2", "body", 0)
	got := f.get(link("/ui/topic", "topic", "topic"))
	got.has(t, "one that is not paused", http.StatusOK, `action="ui/act/pause"`, `data-do="pause"`)
	got.lacks(t, "one that is not paused", `id="paused"`, `data-do="resume"`)
	f.post("/ui/act/pause", "topic", "topic", "for", "2h", "note", "<b>ask Eve</b>")
	got = f.get(link("/ui/topic", "topic", "topic"))
	got.has(t, "paused", http.StatusOK, `id="paused"`, `&lt;b&gt;ask Eve&lt;/b&gt;`, `id="since"`, `id="until"><time`, `data-do="resume"`, "ready1")
	got.lacks(t, "paused", `id="backed-off"`)
	check(t, f.BackOff(t.Context(), "topic", time.Hour))
	check(t, f.Pause(t.Context(), "topic", client.PauseOptions{}))
	f.get(link("/ui/topic", "topic", "topic")).has(t, "without end", http.StatusOK, "no end", `id="backed-off"><time`)
	topics := f.get("/ui/topics")
	topics.has(t, "the topics", http.StatusOK, `data-paused`)
	f.post("/ui/act/resume", "topic", "topic")
	check(t, f.BackOff(t.Context(), "topic", time.Hour))
	got = f.get(link("/ui/topic", "topic", "topic"))
	got.has(t, "backed off", http.StatusOK, `id="backed-off"`)
	got.lacks(t, "backed off", `id="since"`)
	f.post("/ui/act/resume", "topic", "topic")
	f.get("/ui/topics").lacks(t, "resumed", `data-paused`)
}

func (a response) lacks(t testing.TB, what string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if strings.Contains(a.body, part) {
			t.Errorf("%s: there is %q", what, part)
		}
	}
}
