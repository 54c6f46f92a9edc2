package e2e

import (
	"testing"
	"time"
)

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

// An invalid delay stays in its field, next to the error.
func TestWrongDelay(t *testing.T) {
	p := openPage(t, "")
	p.call("/v1/jobs", map[string]any{"id": "order-1", "topic": "orders", "body": "b", "delay": "1h"})
	p.open(job("order-1"))
	p.fill(`[name=delay]`, "1 hour")
	p.click(`[data-do=reschedule]`)
	if got := p.eval(`document.querySelector("[name=delay]").value`); got != "1 hour" || p.text("#problem") == "" {
		t.Errorf("the field has %q, the page says %s", got, p.text("#main"))
	}
	p.fill(`[name=delay]`, "2h")
	p.click(`[data-do=reschedule]`)
	p.says("#done", "The job has a new due time.")
	p.open(job("order-1"))
	p.says("#done", "")
}

// All dead letters of a page are ticked at once and requeued.
func TestTickAll(t *testing.T) {
	p := openPage(t, "")
	for _, id := range []string{"a", "b", "c"} {
		p.call("/v1/jobs", map[string]any{"id": id, "topic": "mail", "body": "b"})
		p.bury(p.reserve("mail"), "broken", "")
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
