package e2e

import (
	"strings"
	"testing"
)

// TestLife follows a job through the dashboard: pushed in the form, waiting, ready, popped over HTTP, its time
// over, popped again, finished; and another one that becomes a dead letter and is requeued.
func TestLife(t *testing.T) {
	url, _ := startDelayer(t, "")
	p := openPage(t, url)

	p.open("/")
	if level := p.eval(`document.querySelector("#status").dataset.level`); level != "ok" {
		t.Errorf("the overview says %s: %s", level, p.text("#status"))
	}
	p.click(`nav a[href="/ui/push"]`)
	p.fill(`[name=topic]`, "orders")
	p.fill(`[name=id]`, "order-1")
	p.fill(`[name=delay]`, "1h")
	p.fill(`[name=body]`, `{"order":1}`)
	p.fill(`[name=ttr]`, "5s")
	p.click(`[data-do=push]`)
	if p.text("#done") != "The job is pushed." {
		t.Errorf("after the push: %s", p.text("#main"))
	}
	p.is("order-1", "waiting")
	if got := p.text("#body"); !strings.Contains(got, `"order": 1`) {
		t.Errorf("the body is shown as %s", got)
	}
	p.openUntil("/", `document.querySelector("#n-waiting").innerText === "1"`)

	p.open(job("order-1"))
	p.fill(`[name=delay]`, "1s")
	p.click(`[data-do=reschedule]`)
	p.becomes("order-1", "ready")
	p.openUntil("/ui/topics", `document.querySelector("#topics")`)
	p.click(`#topics a[data-topic]`)
	if got := p.text("#jobs"); !strings.Contains(got, "order-1") {
		t.Errorf("the topic's page: %s", got)
	}

	popped := p.call("/pop", map[string]any{"topic": "orders"})["data"].(map[string]any)
	if popped["id"] != "order-1" || popped["body"] != `{"order":1}` {
		t.Fatalf("popped %v", popped)
	}
	p.is("order-1", "reserved")
	p.becomes("order-1", "ready")
	p.call("/pop", map[string]any{"topic": "orders"})
	p.call("/finish", map[string]any{"id": "order-1"})
	p.is("order-1", "gone")

	p.call("/push", map[string]any{"topic": "orders", "id": "order-2", "delay": 3600, "ttr": 3600, "body": "b"})
	p.open(job("order-2"))
	p.click(`[data-do=deliver]`)
	p.becomes("order-2", "ready")
	reserved := p.call("/v1/reserve", map[string]any{"topics": []string{"orders"}})
	delivery := reserved["deliveries"].([]any)[0].(map[string]any)
	p.is("order-2", "reserved")
	p.call("/v1/jobs/order-2/bury", map[string]any{"topic": "orders", "token": delivery["token"], "reason": "no such order", "error": "the bank says no"})
	p.is("order-2", "dead")
	p.openUntil("/ui/dead", `document.querySelector("#dead-topics")`)
	p.click(`#dead-topics a[data-topic]`)
	if got := p.text("#groups"); !strings.Contains(got, "no such order") || !strings.Contains(got, "the bank says no") {
		t.Errorf("the groups: %s", got)
	}
	p.click(`[data-do=requeue-group]`)
	if got := p.text("#count"); got != "1" {
		t.Errorf("the confirmation says %s", got)
	}
	p.click(`[data-do=requeue_dead]`)
	p.is("order-2", "ready")

	p.openUntil("/ui/topics", `document.querySelector("[data-do=purge]")`)
	p.click(`[data-do=purge]`)
	if got := p.text("#count"); got != "1" {
		t.Errorf("the purge would delete %s", got)
	}
	p.is("order-2", "ready")
	p.openUntil("/ui/topics", `document.querySelector("[data-do=purge]")`)
	p.click(`[data-do=purge]`)
	p.click(`button[data-do=purge]`)
	p.is("order-2", "gone")
}
