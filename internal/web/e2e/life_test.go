package e2e

import (
	"encoding/json"
	"testing"
	"time"

	cdp "github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// TestLife follows a job through the dashboard: pushed in the form, waiting, ready, popped over HTTP, its
// lease expired, popped again, finished.
func TestLife(t *testing.T) {
	p := openPage(t, "")

	p.open("/")
	if level := p.eval(`document.querySelector("#status").dataset.level`); level != "ok" {
		t.Errorf("the overview says %s: %s", level, p.text("#status"))
	}
	p.click(`nav a[href="ui/push"]`)
	p.fill(`[name=topic]`, "orders")
	p.fill(`[name=id]`, "order-1")
	p.fill(`[name=delay]`, "1h")
	p.fill(`[name=body]`, `{"order":1}`)
	p.fill(`[name=lease]`, "5s")
	p.click(`[data-do=push]`)
	p.says("#done", "The job was pushed.")
	p.is("order-1", "waiting")
	p.shows("#body", `"order": 1`)
	p.openUntil("/", `document.querySelector("#n-waiting").innerText === "1"`)

	p.open(job("order-1"))
	p.fill(`[name=delay]`, "1s")
	p.click(`[data-do=reschedule]`)
	p.becomes("order-1", "ready")
	p.openUntil("/ui/topics", `document.querySelector("#topics")`)
	p.click(`#topics a[data-topic]`)
	p.shows("#jobs", "order-1")

	popped := p.call("/pop", map[string]any{"topic": "orders"})["data"].(map[string]any)
	if popped["id"] != "order-1" || popped["body"] != `{"order":1}` {
		t.Fatalf("popped %v", popped)
	}
	p.is("order-1", "reserved")
	p.becomes("order-1", "ready")
	p.call("/pop", map[string]any{"topic": "orders"})
	p.call("/finish", map[string]any{"id": "order-1"})
	p.is("order-1", "gone")
}

// A producer's input appears as text on every page, and never as a script.
const hostile = `"'></title></textarea></pre><script>document.title='hacked'</script><img src=x onerror="document.title='hacked'"><svg onload="document.title='hacked'">` + "\u202e{{.}}`${1}"

func TestHostileInput(t *testing.T) {
	p := openPage(t, "")
	chromedp.ListenTarget(p.ctx, func(event any) {
		switch event := event.(type) {
		case *cdp.EventJavascriptDialogOpening:
			t.Errorf("a page opens a dialog: %s", event.Message)
		case *runtime.EventExceptionThrown:
			t.Errorf("a page's script fails: %s", event.ExceptionDetails.Error())
		}
	})
	for _, state := range []string{"", "dead ", "reserved ", "ready "} {
		p.call("/push", map[string]any{"topic": hostile, "id": state + hostile, "delay": 3600, "ttr": 3600, "body": hostile})
	}
	p.call("/v1/jobs", map[string]any{"topic": "headers", "id": "headers " + hostile, "delay": 3600, "body": hostile, "headers": map[string]any{"tenant": hostile}})
	named, err := json.Marshal(map[string]string{hostile: hostile}) // no client of ours pushes such a name
	check(t, err)
	p.redis.Do("HSET", "delayer:job_bucket:"+hostile, "options", "0 0 604800000 "+string(named))
	deliver := func(id string) {
		t.Helper()
		p.open(job(id))
		p.click(`[data-do=deliver]`)
		p.becomes(id, "ready")
	}
	deliver("dead " + hostile)
	p.bury(p.reserve(hostile), hostile)
	deliver("reserved " + hostile)
	p.reserve(hostile)
	deliver("ready " + hostile)

	packed := escaped(hostile)
	paths := []string{
		"/", "/ui/topics", "/ui/topic?topic=" + packed, "/ui/topic?state=waiting&topic=" + packed, "/ui/topic?state=reserved&topic=" + packed,
		job(hostile), job("dead " + hostile), job("reserved " + hostile), job("ready " + hostile), job("headers " + hostile), job("nothing " + hostile),
		"/ui/dead", "/ui/dead/topic?topic=" + packed, "/ui/push?topic=" + packed, "/ui/push?body=" + escaped(hostile),
		"/ui/act/purge?topic=" + packed, "/ui/act/remove?id=" + packed, "/ui/act/requeue_dead?topic=" + packed + "&reason=" + packed + "&error=" + packed,
		"/ui/find?q=" + escaped(hostile), "/ui/find?q=base64:" + escaped(hostile), "/ui/" + escaped(hostile), "/ui/topic?cursor=" + escaped(hostile) + "&topic=" + packed,
		"/ui/job?id=" + escaped(hostile), "/?lang=" + escaped(hostile), "/?theme=" + escaped(hostile),
	}
	for _, language := range []string{"en", "zh"} {
		p.open("/?lang=" + language)
		for _, path := range paths {
			p.open(path)
			if title := p.eval("document.title"); title == "hacked" {
				t.Errorf("%s: a script of the job's has run", path)
			}
			if n := p.eval(`String(document.querySelectorAll("script:not([src]), [onerror], [onload], img[src=x]").length)`); n != "0" {
				t.Errorf("%s: %s elements of the job's", path, n)
			}
		}
	}
	// The text is readable.
	for id, name := range map[string]string{"headers " + hostile: "tenant", hostile: "'></title>"} {
		p.open(job(id))
		p.shows("#headers", name, ": \"'></title></textarea></pre><script>document.title='hacked'</script><img src=x")
	}
	p.open(job(hostile))
	if got := p.eval(`String(document.querySelector("#body").textContent.includes("<script>document.title='hacked'</script>"))`); got != "true" {
		t.Errorf("the body is shown as %s", p.text("#body"))
	}
}

// When Redis is down, the overview stops reporting that all is well until Redis is back.
func TestRedisGone(t *testing.T) {
	p := openPage(t, "")
	pause := func() { time.Sleep(20 * time.Millisecond) }
	const shown, hidden = `document.querySelector("#status").checkVisibility()`, `!document.querySelector("#status").checkVisibility()`
	p.openUntil("/", shown)
	p.redis.Kill()
	p.until("without Redis", hidden+` && document.querySelector("#lost").checkVisibility()`, pause)
	p.redis.Restart()
	p.until("with Redis", shown+` && !document.querySelector("#lost").checkVisibility()`, pause)
}

// All dead letters of a page are ticked at once and requeued.
func TestTickAll(t *testing.T) {
	p := openPage(t, "")
	for _, id := range []string{"a", "b", "c"} {
		p.call("/v1/jobs", map[string]any{"id": id, "topic": "mail", "body": "b"})
		p.bury(p.reserve("mail"), "broken")
	}
	p.openUntil("/ui/dead", `document.querySelector("#dead-topics")`)
	p.click(`#dead-topics a[data-topic]`)
	p.eval(`document.querySelector("#select-all").click(), ""`)
	p.eval(`document.querySelector("input[form=selection]").click(), ""`) // except the first
	p.click(`[data-do=requeue-selected]`)
	p.says("#count", "2")
	p.click(`button[data-do=requeue_selected]`)
	p.says("#done", "Dead letters requeued: 2")
	p.is("c", "dead") // newest first
	p.is("a", "ready")
}

// An open overview updates when a topic is paused.
func TestOverviewFollowsPauses(t *testing.T) {
	p := openPage(t, "")
	p.openUntil("/", `!document.querySelector("#slowed")`)
	p.call("/v1/topics/mail/pause", map[string]any{"note": "why"})
	p.until("it is paused", `document.querySelector("#slowed [data-paused]")`, func() {})
	p.call("/v1/topics/mail/resume", nil)
	p.until("it is resumed", `!document.querySelector("#slowed")`, func() {})
}
