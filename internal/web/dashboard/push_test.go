package dashboard

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/testing/redistest"
	"github.com/mix-basic/delayer/internal/web"
)

// TestPush pushes with the form and is redirected to the job.
func TestPush(t *testing.T) {
	f := start(t, web.Options{})
	form := url.Values{"topic": {`<b>"topic'`}, "id": {`<i>"id'`}, "delay": {"1h"}, "body": {"two\r\nlines"}, "lease": {"45"}, "max_attempts": {"3"}}
	got := f.form("/ui/push", form)
	got.has(t, "push", http.StatusSeeOther)
	f.follow(got).has(t, "the job", http.StatusOK, "The job was pushed", `data-state="waiting"`, "two\nlines", "of 3")
	job, err := f.Get(t.Context(), `<i>"id'`)
	if err != nil || job.Body != "two\nlines" || job.Topic != `<b>"topic'` || job.State != client.StateWaiting || time.Until(job.Due) < 50*time.Minute || job.Options.MaxAttempts != 3 {
		t.Errorf("%+v, %v", job, err)
	}

	form.Set("body", "another")
	f.form("/ui/push", form).has(t, "an ID that exists", http.StatusConflict, "A job with this ID exists", "another", link("ui/job", "id", `<i>"id'`))
	if job, _ := f.Get(t.Context(), `<i>"id'`); job.Body != "two\nlines" {
		t.Errorf("it was replaced: %+v", job)
	}
	form.Set("replace", "1")
	f.form("/ui/push", form).has(t, "replace", http.StatusSeeOther)
	if job, _ := f.Get(t.Context(), `<i>"id'`); job.Body != "another" {
		t.Errorf("it was not replaced: %+v", job)
	}

	got = f.form("/ui/push", url.Values{"topic": {"now"}, "body": {"x"}})
	f.get(got.header.Get("Location")).has(t, "at once", http.StatusOK, `data-state="ready"`)
}

// TestUnknownPush checks that, if Redis's reply is lost, the page reports that the job may have been
// pushed, and that a second try pushes the same job whether or not the first succeeded.
func TestUnknownPush(t *testing.T) {
	for _, stored := range []bool{true, false} {
		r := redistest.Start(t)
		cutter := redistest.StartCutter(t, r.Addr)
		f := startOn(t, web.Options{}, r, cutter.Addr)
		typed := url.Values{"topic": {"topic"}, "body": {"typed"}, "delay": {"1h"}}
		// The first calls load the script.
		if to := f.form("/ui/push", typed).header.Get("Location"); to == "" {
			t.Fatal("the first push has failed")
		}
		got := f.cut(cutter, stored, func() { f.Do("FLUSHDB") }, func() response { return f.form("/ui/push", typed) })
		checkPage(t, "en", "the form", got)
		got.has(t, "the form", http.StatusServiceUnavailable, `id="unknown"`, "It is unknown whether the job was pushed", "typed")
		if strings.Contains(got.body, "was not pushed") {
			t.Error("it says more than is known")
		}
		again := url.Values{}
		for _, name := range []string{"id", "made"} {
			field := regexp.MustCompile(`name="` + name + `" value="([0-9a-f]{32})"`).FindStringSubmatch(got.body)
			if field == nil {
				t.Fatalf("there is no %s in %s", name, got.body)
			}
			again.Set(name, field[1])
		}
		jobs := len(f.State().Buckets)
		if (jobs == 1) != stored {
			t.Fatalf("%d jobs", jobs)
		}
		for name, value := range typed {
			again[name] = value
		}
		f.follow(f.form("/ui/push", again)).has(t, "the second try", http.StatusOK, "The job was pushed", `data-state="waiting"`)
		if s := f.State(); len(s.Buckets) != 1 || len(s.Pool) != 1 || s.Pool[0] != again.Get("id") {
			t.Errorf("there are %v", s)
		}
	}
}

// TestWrongPush keeps the entered values, shows the mistake, and pushes nothing.
func TestWrongPush(t *testing.T) {
	f := start(t, web.Options{})
	for _, c := range []struct{ field, value, says string }{
		{"topic", "", "Topic is missing"},
		{"topic", strings.Repeat("t", 1025), "want 1 to 1,024 bytes"},
		{"id", strings.Repeat("i", 4097), "at most 4,096 bytes"},
		{"body", "", "Body is missing"},
		{"delay", "soon", "delay &#34;soon&#34;: want seconds"},
		{"lease", "25h", "lease &#34;25h&#34;: want seconds, or a number with a unit (ms, s, m, h or d), from 1 ms to 24 h"},
		{"max_attempts", "0", "attempts &#34;0&#34;: want a whole number above 0"},
	} {
		form := url.Values{"topic": {"topic"}, "id": {"kept-id"}, "body": {"kept-body"}, "delay": {"1h"}}
		form.Set(c.field, c.value)
		got := f.form("/ui/push", form)
		got.has(t, c.field+" "+c.value, http.StatusBadRequest, `id="problem"`, c.says, map[bool]string{true: c.value, false: "kept-id"}[c.field == "id"], c.value)
		got.marks(t, c.field+" "+c.value, c.field)
		got.lacks(t, c.field+" "+c.value, "invalid ")
	}
	if s := f.State(); len(s.Buckets) > 0 {
		t.Errorf("pushed: %v", s)
	}
}

// TestLookOn searches for a topic's few jobs among many others until the page is full, all jobs were
// examined, or time runs out. The page then shows how many were examined.
func TestLookOn(t *testing.T) {
	f := start(t, web.Options{})
	const others, every = 60000, 700
	f.Do("EVAL", `for i = 1, ARGV[1] do
		local id = (i % ARGV[2] == 0 and 'mine' or 'other') .. i
		redis.call('HSET', 'delayer:job_bucket:' .. id, 'topic', i % ARGV[2] == 0 and 'mine' or 'others', 'body', 'x')
		redis.call('ZADD', KEYS[1], 4000000000 + i, id)
	end`, 1, "delayer:job_pool", others, every)
	f.dashboard.patience = time.Hour
	first := f.get(link("/ui/topic", "topic", "mine", "state", "waiting"))
	first.has(t, "the first page", http.StatusOK, "Searched 35,000 entries of 60,000")
	second := f.get(first.linkOf("more"))
	second.has(t, "the second page", http.StatusOK, "Searched 60,000 entries of 60,000")
	var want []string
	for i := every; i <= others; i += every {
		want = append(want, fmt.Sprint("mine", i))
	}
	if found := first.named("data-job"); !slices.Equal(found, want[:pageSize]) || strings.Contains(first.body, `id="short"`) {
		t.Errorf("the first page has %q", found)
	}
	if found := second.named("data-job"); !slices.Equal(found, want[pageSize:]) || second.linkOf("more") != "" {
		t.Errorf("the second page has %q", found)
	}
	f.dashboard.patience = 0
	short := f.get(link("/ui/topic", "topic", "mine", "state", "waiting"))
	short.has(t, "without patience", http.StatusOK, `id="short"`, `id="more"`, "of 60,000")
	if n := len(short.named("data-job")); n == 0 || n == pageSize {
		t.Errorf("without patience it has %d jobs", n)
	}
}
