package e2e

import (
	"encoding/json"
	"testing"

	cdp "github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

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
	p.bury(p.reserve(hostile), hostile, hostile)
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
