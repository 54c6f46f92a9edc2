package dashboard

import (
	"encoding/json"
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/internal/store"
	"github.com/mix-basic/delayer/internal/web"
)

// mark begins hostile texts. What follows it must never appear unescaped.
const mark = "Zq7"

// hostile lists names and bodies that an attacker might choose.
var hostile = []string{
	mark + `"><script>alert(1)</script>`,
	mark + `' onmouseover=alert(1) x='`,
	mark + "</textarea></pre></title><img src=x onerror=alert(1)>",
	mark + "\u202egnp.exe\u2066\x00\x07\x1b[31m\xff\xfe\xc0\xaf",
	mark + "{{.}}${alert(1)}`javascript:alert(1)//",
	mark + strings.Repeat("<b>", 300),
}

// fill stores hostile jobs in every state.
func (f *fixture) fill() {
	f.TB.Helper()
	for _, evil := range hostile {
		f.push(evil, "waiting"+evil, evil, time.Hour)
		headers, err := json.Marshal(map[string]string{evil: evil}) // such as no client of ours would push
		check(f.TB, err)
		f.Do("HSET", "delayer:job_bucket:waiting"+evil, "options", "0 0 604800000 "+string(headers))
		f.bury(evil, "dead"+evil, evil, "reason"+evil, "error"+evil)
		f.push(evil, "reserved"+evil, evil, 0)
		f.reserve(evil)
		f.push(evil, "ready"+evil, evil, 0)
	}
	f.push(mark+strings.Repeat("t", 1021), mark+strings.Repeat("\u202e<", 1000), strings.Repeat("<script>", 20000), 0)
	for i, evil := range hostile { // a heartbeat, which any program could write
		entry, err := json.Marshal(map[string]any{
			"now": time.Now().UnixMilli(), "started": 1, "interval": 1000, "pid": i, "lateness": make([]int, len(store.Lateness{}.Counts)),
			"host": evil, "version": evil, "error": evil,
		})
		check(f.TB, err)
		f.Do("HSET", "delayer:servers", evil, entry)
	}
	f.push("plain", "json", `{"a":"<script>alert(2)</script>","b":[1,2]}`, 0)
}

var (
	hrefs = regexp.MustCompile(`(?:href|src|data-live)="([^"]*)"`)
	tags  = regexp.MustCompile(`<(/?)([a-zA-Z][a-zA-Z0-9-]*)((?:[^<>"]|"[^"]*")*)>`)
	// unescaped matches a hostile text that was not escaped.
	unescaped = regexp.MustCompile(mark + `("|'|</textarea|<b>)`)
	// active matches attributes that our pages never have; quoted matches values, in which such a name is
	// harmless.
	quoted = regexp.MustCompile(`"[^"]*"`)
	active = regexp.MustCompile(`(?i)\s(on\w+|style)\s*=`)
	void   = []string{"meta", "base", "link", "img", "input", "br", "hr"}
)

// TestPages follows all links in both languages with hostile data everywhere. Each page is well formed and
// executes nothing from Redis, and no link changes anything.
func TestPages(t *testing.T) {
	f := start(t, web.Options{})
	f.fill()
	if servers := strings.Count(f.get("/").body, "data-server="); servers != len(hostile)-1 { // the last one is too long
		t.Errorf("%d servers are shown", servers)
	}
	before := f.State()
	crawled := languages
	if testing.Short() {
		crawled = languages[:1]
	}
	for _, lang := range crawled {
		seen := f.crawl(lang)
		for _, path := range []string{"/", "/ui/topics", "/ui/consumers", "/ui/topic", "/ui/job", "/ui/body", "/ui/dead", "/ui/dead/topic", "/ui/push", "/ui/live.json",
			"/ui/act/remove", "/ui/act/drop", "/ui/act/purge", "/ui/act/requeue_dead", "/ui/act/drop_dead", "/ui/static/dashboard.js"} {
			if seen[path] == 0 {
				t.Errorf("%s: no link leads to %s", lang, path)
			}
		}
	}
	f.Expect(before)
}

// crawl follows all links, checks the pages, and returns how many links led to each path.
func (f *fixture) crawl(lang string) map[string]int {
	f.TB.Helper()
	paths := map[string]int{}
	for to, got := range f.crawlAll("Accept-Language", lang) {
		path, _, _ := strings.Cut(to, "?")
		paths[path]++
		if got.status != http.StatusOK && got.status != http.StatusNotFound {
			f.TB.Errorf("%s %s: status %d: %.200s", lang, to, got.status, got.body)
		}
		if strings.HasPrefix(got.header.Get("Content-Type"), "text/html") {
			checkPage(f.TB, lang, to, got)
		}
	}
	return paths
}

// crawlAll returns the pages that all links lead to.
func (f *fixture) crawlAll(headers ...string) map[string]response {
	f.TB.Helper()
	found := map[string]response{}
	for open := []string{"/"}; len(open) > 0; open = open[1:] {
		if _, ok := found[open[0]]; ok {
			continue
		}
		got := f.get(open[0], headers...)
		found[open[0]] = got
		for _, to := range f.hrefsOf(open[0], got) {
			// Links that change the language or theme lead to the same page.
			if !strings.Contains(to, "lang=") && !strings.Contains(to, "theme=") {
				open = append(open, to)
			}
		}
	}
	return found
}

// hrefsOf returns the targets of the links on a page, without the prefix behind which the browser sees it.
func (f *fixture) hrefsOf(path string, got response) (list []string) {
	f.TB.Helper()
	if !strings.HasPrefix(got.header.Get("Content-Type"), "text/html") {
		return nil
	}
	base, err := url.Parse("http://host/behind/a/proxy" + path)
	check(f.TB, err)
	for _, match := range hrefs.FindAllStringSubmatch(got.body, -1) { // the first one is the base
		to, err := base.Parse(html.UnescapeString(match[1]))
		check(f.TB, err)
		if len(list) == 0 {
			base = to
		}
		own, inside := strings.CutPrefix(to.RequestURI(), "/behind/a/proxy/")
		if !inside || to.Host != base.Host {
			f.TB.Errorf("%s: a link leads to %q", path, match[1])
		}
		list = append(list, "/"+own)
	}
	return list
}

// checkPage checks that a page is well formed and uses only our own scripts and styles.
func checkPage(t testing.TB, lang, path string, got response) {
	t.Helper()
	if csp := got.header.Get("Content-Security-Policy"); !strings.Contains(csp, "default-src 'none'") || strings.Contains(csp, "unsafe") {
		t.Errorf("%s: policy %q", path, csp)
	}
	if !strings.Contains(got.body, `<html lang="`+lang+`"`) {
		t.Errorf("%s is not in %s", path, lang)
	}
	for _, no := range []string{"%!", "<no value>", "ZgotmplZ", "\u202e", "\x00", "\x1b"} {
		if strings.Contains(got.body, no) {
			t.Errorf("%s: has %q", path, no)
		}
	}
	if raw := unescaped.FindString(got.body); raw != "" {
		t.Errorf("%s: not escaped: %s", path, raw)
	}
	var open []string
	rest := strings.TrimPrefix(got.body, "<!doctype html>")
	for _, tag := range tags.FindAllStringSubmatch(rest, -1) {
		name, attributes := tag[2], tag[3]
		switch {
		case tag[1] == "/":
			if len(open) == 0 || open[len(open)-1] != name {
				t.Fatalf("%s: </%s> within %v", path, name, open)
			}
			open = open[:len(open)-1]
		case !slices.Contains(void, name):
			open = append(open, name)
		}
		if active.MatchString(quoted.ReplaceAllString(attributes, "")) || name == "script" && tag[1] == "" && !strings.Contains(attributes, ` src="ui/static/`) {
			t.Errorf("%s: <%s%s>", path, name, attributes)
		}
	}
	if len(open) > 0 {
		t.Errorf("%s: not closed: %v", path, open)
	}
	if text := tags.ReplaceAllString(rest, ""); strings.ContainsAny(text, "<") {
		t.Errorf("%s: a stray <: %.80s", path, text[strings.Index(text, "<"):])
	}
}

// TestUnreadable breaks each key: the pages name what they can't read and show the rest.
func TestUnreadable(t *testing.T) {
	for _, key := range []string{"job_pool", "job_bucket:id", "ready_queue:topic", "reserved", "topics", "dead_letter:dead", "dead_letters:topic", "dead_topics", "servers", "acked", "history"} {
		t.Run(key, func(t *testing.T) {
			f := start(t, web.Options{})
			f.push("topic", "id", "body", time.Hour)
			f.bury("topic", "dead", "body", "reason", "error")
			f.Do("DEL", "delayer:"+key)
			if key == "acked" {
				f.Do("HSET", "delayer:"+key, "a", "b")
			} else {
				f.Do("SET", "delayer:"+key, "broken")
			}
			unreadables := 0
			for _, path := range []string{"/", "/ui/live.json", "/ui/topics", link("/ui/topic", "topic", "topic"), link("/ui/topic", "topic", "topic", "state", "waiting"),
				link("/ui/topic", "topic", "topic", "state", "reserved"), link("/ui/job", "id", "id"), link("/ui/job", "id", "dead"),
				"/ui/dead", link("/ui/dead/topic", "topic", "topic"), link("/ui/act/purge", "topic", "topic"), link("/ui/act/drop_dead", "topic", "topic")} {
				got := f.get(path)
				if got.status >= 500 {
					t.Errorf("%s: %d: %.3000s", path, got.status, got.body)
				}
				if strings.Contains(strings.ToLower(got.body), "unreadable") || strings.Contains(got.body, "can't be read") {
					unreadables++
				}
			}
			if unreadables == 0 && key != "topics" && key != "dead_topics" && key != "history" {
				t.Error("no page says that anything is unreadable")
			}
		})
	}
}

// TestRedisDown checks that each page reports an outage of Redis in time, and recovers afterwards.
func TestRedisDown(t *testing.T) {
	f := start(t, web.Options{})
	f.push("topic", "id", "body", time.Hour)
	pages := []string{"/", "/ui/topics", link("/ui/topic", "topic", "topic"), link("/ui/job", "id", "id"), "/ui/dead", link("/ui/dead/topic", "topic", "topic"), link("/ui/act/purge", "topic", "topic")}
	f.Kill()
	for _, path := range pages {
		f.get(path).has(t, path, http.StatusServiceUnavailable, "Redis can&#39;t be reached", `http-equiv="refresh"`)
	}
	f.get("/ui/live.json").has(t, "live", http.StatusServiceUnavailable, "Redis can't be reached")
	f.get("/ui/push").has(t, "the form", http.StatusOK)
	f.post("/ui/act/deliver", "id", "id").has(t, "an action", http.StatusServiceUnavailable, "Redis can&#39;t be reached")
	f.form("/ui/push", url.Values{"topic": {"topic"}, "body": {"typed"}}).has(t, "a push", http.StatusServiceUnavailable, "The job was not pushed", "typed", `name="id" value=""`)
	f.Restart()
	for _, path := range pages {
		eventually(t, path+" is there again", func() bool { return f.get(path).status != http.StatusServiceUnavailable })
	}
}

// TestRedisHangs checks that a page does not wait for a silent Redis indefinitely.
func TestRedisHangs(t *testing.T) {
	f := start(t, web.Options{})
	f.push("topic", "id", "body", time.Hour)
	f.Hang()
	defer f.Continue()
	f.get(link("/ui/job", "id", "id")).has(t, "a job", http.StatusServiceUnavailable)
	f.Continue()
	eventually(t, "the job is there again", func() bool { return f.get(link("/ui/job", "id", "id")).status == http.StatusOK })
}

// TestWithoutRights checks that the page names what was refused.
func TestWithoutRights(t *testing.T) {
	f := start(t, web.Options{})
	f.push("topic", "id", "body", time.Hour)
	f.Do("ACL", "SETUSER", "default", "-info")
	f.get("/").has(t, "no INFO", http.StatusOK, "Redis&#39;s state can&#39;t be read", "NOPERM")
	f.Do("ACL", "SETUSER", "default", "-zadd", "-zrem")
	f.post("/ui/act/deliver", "id", "id").has(t, "no ZREM", http.StatusBadGateway, "Redis refused the request")
	f.get(link("/ui/job", "id", "id")).has(t, "the job", http.StatusOK, `data-state="waiting"`)
}

// TestSecureCookies checks that cookies are secure if the request came over HTTPS.
func TestSecureCookies(t *testing.T) {
	f := start(t, web.Options{})
	plain := f.get("/?lang=zh")
	f.site.Close()
	f.site = httptest.NewTLSServer(web.New(web.Options{TLS: true}, f.dashboard.Area()))
	defer f.site.Close()
	f.browser = f.site.Client()
	f.browser.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	for i, got := range []response{plain, f.get("/?lang=zh"), f.form("/ui/push", url.Values{"topic": {"now"}, "body": {"x"}})} {
		if cookie := got.header.Get("Set-Cookie"); cookie == "" || strings.Contains(cookie, "Secure") != (i > 0) {
			t.Errorf("%d: the cookie is %q", i, cookie)
		}
	}
}

// A Redis without a free connection is reported as busy, like in the API.
func TestTooManyClientsIsTemporary(t *testing.T) {
	if status, key := kindOf(redis.Error("ERR max number of clients reached")); status != 503 || key != "problem.busy" {
		t.Errorf("it is %d %s", status, key)
	}
}

// A path that is unknown or contains dot segments is not found and not redirected.
func TestNoPage(t *testing.T) {
	f := start(t, web.Options{})
	for _, path := range []string{"/ui/nothing", "/ui/./topics", "/ui/x/../topics", "/ui//topics", "/ui/topics/"} {
		if got := f.get(path); got.status != 404 {
			t.Errorf("%s: %d", path, got.status)
		}
	}
}

// Links carry topics and IDs of any bytes in percent-encoding. An unknown one says so.
func TestPlainLinks(t *testing.T) {
	f := start(t, web.Options{})
	for name, encoded := range map[string]string{"mail": "mail", "a b/+%&=#?": "a%20b%2F%2B%25%26%3D%23%3F", "订单": "%E8%AE%A2%E5%8D%95", "\xff\x00\r\n": "%FF%00%0D%0A"} {
		topic, job := "/ui/topic?topic="+encoded, "/ui/job?id="+encoded
		f.get(topic).has(t, topic, http.StatusOK, `id="unknown"`)
		f.get(job).has(t, job, http.StatusNotFound, `id="not-found"`)
		f.push(name, name, "body", 0)
		f.get(topic).has(t, topic, http.StatusOK, `href="ui/job?id=`+encoded+`"`)
		f.get(topic).lacks(t, topic, `id="unknown"`)
		f.get(job).has(t, job, http.StatusOK, `href="ui/topic?topic=`+encoded+`"`)
	}
	f.get("/ui/topic?topic=100%").has(t, "a broken link", http.StatusBadRequest)
}
