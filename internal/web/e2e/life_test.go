package e2e

import "testing"

// TestLife follows a job through the dashboard: pushed in the form, waiting, ready, popped over HTTP, its
// lease expired, popped again, finished. Another job becomes a dead letter and is requeued.
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
	p.fill(`[name=ttr]`, "5s")
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

	p.call("/push", map[string]any{"topic": "orders", "id": "order-2", "delay": 3600, "ttr": 3600, "body": "b"})
	p.open(job("order-2"))
	p.click(`[data-do=deliver]`)
	p.becomes("order-2", "ready")
	delivery := p.reserve("orders")
	p.is("order-2", "reserved")
	p.bury(delivery, "no such order", "the bank says no")
	p.is("order-2", "dead")
	p.openUntil("/ui/dead", `document.querySelector("#dead-topics")`)
	p.click(`#dead-topics a[data-topic]`)
	p.shows("#groups", "no such order", "the bank says no")
	p.click(`[data-do=requeue-group]`)
	p.says("#count", "1")
	p.click(`[data-do=requeue_dead]`)
	p.is("order-2", "ready")

	p.openUntil("/ui/topics", `document.querySelector("[data-do=purge]")`)
	p.click(`[data-do=purge]`)
	p.says("#count", "1")
	p.is("order-2", "ready")
	p.openUntil("/ui/topics", `document.querySelector("[data-do=purge]")`)
	p.click(`[data-do=purge]`)
	p.click(`button[data-do=purge]`)
	p.is("order-2", "gone")
}
