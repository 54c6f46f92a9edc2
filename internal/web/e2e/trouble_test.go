package e2e

import (
	"testing"
	"time"

	"github.com/mix-basic/delayer/internal/redistest"
)

// until waits until the script is true of the page as it is.
func (p page) until(what, script string) {
	p.Helper()
	for began := time.Now(); p.eval(`String(Boolean(`+script+`))`) != "true"; time.Sleep(20 * time.Millisecond) {
		if time.Since(began) > patience {
			p.Fatalf("%s: %s is not so after %v: %s", what, script, patience, p.text("#main"))
		}
	}
}

// When Redis is gone the overview does not go on to say that all is well; when it is back, it does.
func TestRedisGone(t *testing.T) {
	redis := redistest.Start(t)
	p := openPage(t, startDelayerOn(t, redis, ""))
	const shown, hidden = `document.querySelector("#status").checkVisibility()`, `!document.querySelector("#status").checkVisibility()`
	p.openUntil("/", shown)
	redis.Kill()
	p.until("without Redis", hidden+` && document.querySelector("#lost").checkVisibility()`)
	redis.Restart()
	p.until("with Redis", shown+` && !document.querySelector("#lost").checkVisibility()`)
}

// A delay that is none stays in its field, beside what is wrong with it.
func TestWrongDelay(t *testing.T) {
	url, _ := startDelayer(t, "")
	p := openPage(t, url)
	p.call("/v1/jobs", map[string]any{"id": "order-1", "topic": "orders", "body": "b", "delay": "1h"})
	p.open(job("order-1"))
	p.fill(`[name=delay]`, "1 hour")
	p.click(`[data-do=reschedule]`)
	if got := p.eval(`document.querySelector("[name=delay]").value`); got != "1 hour" || p.text("#problem") == "" {
		t.Errorf("the field has %q, the page says %s", got, p.text("#main"))
	}
	p.fill(`[name=delay]`, "2h")
	p.click(`[data-do=reschedule]`)
	if got := p.text("#done"); got != "The job has a new due time." {
		t.Errorf("then it says %s", p.text("#main"))
	}
	p.open(job("order-1"))
	if p.text("#done") != "" {
		t.Error("it says so again")
	}
}

// All dead letters of a page are ticked at once, and requeued.
func TestTickAll(t *testing.T) {
	url, _ := startDelayer(t, "")
	p := openPage(t, url)
	for _, id := range []string{"a", "b", "c"} {
		p.call("/v1/jobs", map[string]any{"id": id, "topic": "mail", "body": "b"})
		reserved := p.call("/v1/reserve", map[string]any{"topics": []string{"mail"}})
		delivery := reserved["deliveries"].([]any)[0].(map[string]any)
		p.call("/v1/jobs/"+id+"/bury", map[string]any{"topic": "mail", "token": delivery["token"], "reason": "broken"})
	}
	p.openUntil("/ui/dead", `document.querySelector("#dead-topics")`)
	p.click(`#dead-topics a[data-topic]`)
	p.eval(`document.querySelector("#select-all").click(), ""`)
	p.eval(`document.querySelector("input[name=selected]").click(), ""`) // but for the first
	p.click(`[data-do=requeue-selected]`)
	if got := p.text("#count"); got != "2" {
		t.Errorf("the question is about %s", got)
	}
	p.click(`button[data-do=requeue_selected]`)
	if got := p.text("#done"); got != "Dead letters that are ready jobs again: 2" {
		t.Errorf("the page says %s", p.text("#main"))
	}
	p.is("c", "dead") // the newest comes first
	p.is("a", "ready")
}
