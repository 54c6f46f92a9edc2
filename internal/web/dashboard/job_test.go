package dashboard

import (
	"errors"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/testing/redistest"
	"github.com/mix-basic/delayer/internal/web"
)

// TestJobPage shows a job in each state.
func TestJobPage(t *testing.T) {
	f := start(t, web.Options{})
	f.seed()
	for _, c := range []struct {
		id     string
		status int
		parts  []string
	}{
		{"waiting", 200, []string{`data-state="waiting"`, `id="due"><time datetime="`, "in 59 min", `data-do="deliver"`, `data-do="reschedule"`, `data-do="remove"`}},
		{"reserved", 200, []string{`data-state="reserved"`, "Lease ends", "A consumer has reserved this job", `id="attempts">1<`}},
		{"ready1", 200, []string{`data-state="ready"`}},
		{"dead1", 200, []string{`data-state="dead"`, `id="reason"><bdi>reason<`, "refused", `data-do="requeue"`, `data-do="drop"`}},
		{"nobody", 404, []string{`id="not-found"`, "No job has this ID"}},
	} {
		f.get(link("/ui/job", "id", c.id)).has(t, c.id, c.status, c.parts...)
	}
	f.get("/ui/job").has(t, "no ID", http.StatusBadRequest)
}

// TestJobHeaders shows a job's headers in order, in both languages and in each state.
func TestJobHeaders(t *testing.T) {
	f := start(t, web.Options{})
	headers := map[string]string{"tenant": "<b>&\n", "a.b": " ", "empty": ""}
	for _, id := range []string{"waiting", "dead"} {
		_, err := f.Push(t.Context(), client.Message{ID: id, Topic: "t", Body: "b", Headers: headers}, time.Hour)
		check(t, err)
	}
	check(t, f.Reschedule(t.Context(), "dead", 0))
	d, err := f.Reserve(t.Context(), time.Minute, "t")
	check(t, err)
	check(t, d.Bury(t.Context(), errors.New("no")))
	f.push("t", "plain", "b", time.Hour)
	const want = `<dt>Headers</dt><dd id="headers"><div><bdi>a.b</bdi>: <bdi><span class="spelled">␣</span></bdi></div><div><bdi>empty</bdi>: <bdi></bdi></div><div><bdi>tenant</bdi>: <bdi>&lt;b&gt;&amp;<span class="spelled">\x0a</span></bdi></div></dd>`
	for _, id := range []string{"waiting", "dead"} {
		for _, language := range languages {
			f.get(link("/ui/job", "id", id)+"&lang="+language).has(t, id, http.StatusOK, want)
		}
	}
	if page := f.get(link("/ui/job", "id", "plain")).body; strings.Contains(page, "eaders") {
		t.Errorf("a job without headers: %s", page)
	}
}

// TestFind redirects to the job whose ID was entered.
func TestFind(t *testing.T) {
	f := start(t, web.Options{})
	for _, c := range []struct{ query, id string }{
		{"q=plain+id", "plain id"},
		{"q=%3Cb%3E%26", "<b>&"},
		{"q=base64%3A%2F%2F8A", "\xff\xff\x00"},
		{"q=base64:__8A", "\xff\xff\x00"},
		{"q=base64:QQ%3D%3D", "A"},
		{"q=Base64:QQ", "Base64:QQ"},
	} {
		got := f.get("/ui/find?" + c.query)
		got.has(t, c.query, http.StatusSeeOther)
		if to := got.header.Get("Location"); to != link("/ui/job", "id", c.id) {
			t.Errorf("%s leads to %s", c.query, to)
		}
	}
	f.get("/ui/find?q=base64:!").has(t, "no base64", http.StatusBadRequest, `id="problem"`, "not base64", `value="base64:!"`)
	f.get("/ui/find").has(t, "nothing", http.StatusOK)
}

// TestDownload returns a body unchanged, with a type that no browser renders.
func TestDownload(t *testing.T) {
	f := start(t, web.Options{})
	body := "<script>alert(1)</script>\x00\xff" + strings.Repeat("x", 200<<10)
	f.push("topic", "id", body, time.Hour)
	got := f.get(link("/ui/body", "id", "id"))
	if got.status != http.StatusOK || got.body != body {
		t.Errorf("status %d, %d bytes", got.status, len(got.body))
	}
	for name, want := range map[string]string{"Content-Type": "text/plain; charset=utf-8", "X-Content-Type-Options": "nosniff", "Content-Disposition": `attachment; filename="body.txt"`} {
		if value := got.header.Get(name); value != want {
			t.Errorf("%s: %q, want %q", name, value, want)
		}
	}
	f.get(link("/ui/body", "id", "nobody")).has(t, "nobody's", http.StatusNotFound)
}

// TestBody checks how bodies are shown.
func TestBody(t *testing.T) {
	long := strings.Repeat("é", maxShown/2) + "é"
	for _, c := range []struct {
		name, raw, kind, text string
		shown                 int
	}{
		{"text", "two\nlines\tand", "text", "two\nlines\tand", 13},
		{"JSON", `{"b":[1,"<"],"a":1.0}`, "json", "{\n  \"b\": [\n    1,\n    \"<\"\n  ],\n  \"a\": 1.0\n}", 21},
		{"almost JSON", `{"b":}`, "text", `{"b":}`, 6},
		{"deep JSON", strings.Repeat("[", 33) + strings.Repeat("]", 33), "text", strings.Repeat("[", 33) + strings.Repeat("]", 33), 66},
		{"binary", "A\x00\xff", "binary", "00000000  41 00 ff" + strings.Repeat("   ", 13) + "   |A..|\n", 3},
		{"long", long, "text", long[:maxShown], maxShown},
		{"long in the midst of a character", "x" + long, "text", "x" + long[:maxShown-2], maxShown - 1},
		{"turned", "\u202etxt", "text", "\u202etxt", 6},
	} {
		if b := bodyOf(c.raw); b.Kind != c.kind || b.Text != c.text || b.Shown != c.shown || b.Size != len(c.raw) {
			t.Errorf("%s: %s, shown %d of %d: %.200q", c.name, b.Kind, b.Shown, b.Size, b.Text)
		}
	}
	if b := bodyOf(strings.Repeat("\xff", 10000)); b.Shown != maxHex || strings.Count(b.Text, "\n") != maxHex/16 {
		t.Errorf("binary: shown %d: %s", b.Shown, b.Text)
	}
}

// FuzzShown checks that any shown text is printable, bounded, and represents the original.
func FuzzShown(f *testing.F) {
	for _, text := range hostile {
		f.Add(text)
	}
	f.Add(`{"a":[[[1]]]}`)
	f.Fuzz(func(t *testing.T, text string) {
		if b := bodyOf(text); len(b.Text) > 4*maxShown || b.Shown > b.Size {
			t.Errorf("%d bytes are shown as %d", len(text), len(b.Text))
		}
		plain := ""
		for _, p := range pieces(text) {
			if p.Text == "" || !utf8.ValidString(p.Text) || strings.ContainsFunc(p.Text, func(r rune) bool { return !unicode.IsPrint(r) }) {
				t.Errorf("%q has the piece %q", text, p.Text)
			}
			if !p.Spelled {
				plain += p.Text
			}
		}
		visible := strings.Map(func(r rune) rune {
			if r == utf8.RuneError || !unicode.IsPrint(r) || leavesNoTrace(r) {
				return -1
			}
			return r
		}, text)
		without := strings.NewReplacer("\ufffd", "", " ", "")
		if without.Replace(plain) != without.Replace(visible) && strings.ContainsFunc(visible, unicode.IsLetter) {
			t.Errorf("%q is shown as %q", text, plain)
		}
		if c := cut(text, 10); !strings.HasPrefix(text, c) || len(c) > 10 || len(text) >= 10 && len(c) < 7 {
			t.Errorf("cut(%q) is %q", text, c)
		}
		form := url.Values{"id*": {pack(text)}}
		if err := unpack(form); err != nil || form.Get("id") != text {
			t.Errorf("%q comes back as %q, %v", text, form, err)
		}
	})
}

// TestFormats checks numbers, durations and times.
func TestFormats(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	soon := chinese.instant(now.Add(time.Hour), now)
	for _, c := range [][2]string{
		{number(0), "0"}, {number(999), "999"}, {number(1000), "1,000"}, {number(int64(1234567)), "1,234,567"}, {number(-1234), "−1,234"},
		{rate(9.94), "9.9"}, {rate(9.96), "10"}, {rate(2), "2"}, {rate(1234.5), "1,235"},
		{size(0), "0 B"}, {size(1023), "1,023 B"}, {size(1536), "1.5 KiB"}, {size(5 << 30), "5.0 GiB"}, {size(3 << 50), "3072.0 TiB"},
		{english.Duration(0), "0 ms"}, {english.Duration(-time.Second), "0 ms"}, {english.Duration(1500 * time.Microsecond), "1.5 ms"},
		{english.Duration(45*time.Millisecond + 900*time.Microsecond), "45 ms"}, {english.Duration(1200 * time.Millisecond), "1.2 s"},
		{english.Duration(59900 * time.Millisecond), "59 s"}, {english.Duration(90 * time.Second), "1 min 30 s"}, {english.Duration(59 * time.Minute), "59 min"},
		{english.Duration(25 * time.Hour), "1 d 1 h"}, {english.Duration(4000 * 24 * time.Hour), "4,000 d"},
		{soon.Relative, "1 小时后"}, {soon.UTC, "2026-01-02 04:04:05 UTC"}, {english.instant(now.Add(-time.Minute), now).Relative, "1 min ago"},
	} {
		if c[0] != c[1] {
			t.Errorf("%q is shown, want %q", c[0], c[1])
		}
	}
}

// TestBlankNames checks that invisible and look-alike names are distinguishable.
func TestBlankNames(t *testing.T) {
	seen := map[string]string{}
	for name, want := range map[string]string{
		" ": "␣", "  ": "␣␣", " a": "␣a", "a ": "a␣", "a b": "a b", "a  b": "a ␣b", "a": "a", "\u3164": `\u{3164}`, "a\u3164": `a\u{3164}`,
		"\ufe0f": `\u{fe0f}`, "❤\ufe0f": "❤\ufe0f", "\u00a0": `\u{a0}`,
	} {
		text := ""
		for _, p := range pieces(name) {
			text += p.Text
		}
		if text != want || seen[text] != "" {
			t.Errorf("%q is shown as %q, want %q", name, text, want)
		}
		seen[text] = name
	}
	f := start(t, web.Options{})
	f.push(" ", " ", " ", 0)
	link := regexp.MustCompile(`<a [^>]*data-topic="%20"[^>]*><bdi><span class="spelled">␣</span></bdi></a>`)
	if page := f.get("/ui/topics").body; !link.MatchString(page) {
		t.Errorf("there is no link to the topic: %s", page)
	}
}

// TestLongTexts shows the beginning of long texts, and the whole text on a separate page.
func TestLongTexts(t *testing.T) {
	f := start(t, web.Options{})
	id := strings.Repeat("\u202e\"", 1024)
	f.push("topic", id, strings.Repeat("y", 100<<10), time.Hour)
	list := f.get(link("/ui/topic", "topic", "topic", "state", "waiting"))
	list.has(t, "the list", http.StatusOK, html.EscapeString(link("ui/job", "id", id)))
	if n := strings.Count(list.body, "u{202e}"); n > short/4 {
		t.Errorf("the list spells %d of it", n)
	}
	page := f.get(link("/ui/job", "id", id))
	page.has(t, "the page", http.StatusOK, `id="cut"`, "64.0 KiB of 100.0 KiB")
	if n := len(regexp.MustCompile(`u\{202e\}`).FindAllString(page.body, -1)); n < 1024 {
		t.Errorf("the page spells %d of it", n)
	}
}

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
