package dashboard

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mix-basic/delayer/internal/web"
)

// TestSearchOfDeadLetters finds dead letters that contain a text in any field, page by page.
func TestSearchOfDeadLetters(t *testing.T) {
	f := start(t, web.Options{})
	f.bury("topic", "one-Needle", "body", "r", "e")
	f.bury("topic", "two", "the Needle", "r", "e")
	f.bury("topic", "three", "body", "Needle", "e")
	f.bury("topic", "four", "body", "r", "<Needle>")
	f.bury("topic", "five", "needle", "r", "e")
	for i := range 60 {
		f.bury("topic", fmt.Sprint("many", i), "body", "r", "e")
	}
	search := func(text string) response {
		got := f.get(link("/ui/dead/topic", "topic", "topic", "q", text))
		checkPage(t, "en", text, got)
		return got
	}
	found := search("Needle")
	ids := slices.Sorted(slices.Values(found.named("data-job")))
	if !slices.Equal(ids, []string{"four", "one-Needle", "three", "two"}) || strings.Contains(found.body, `id="groups"`) {
		t.Errorf("found are %q", ids)
	}
	search("<Needle").has(t, "what looks like a tag", http.StatusOK, `value="&lt;Needle"`, pack("four"))
	search("nowhere").has(t, "what is nowhere", http.StatusOK, "No jobs here", "Searched 65 entries")
	first := search("many")
	second := f.get(first.linkOf("more"))
	if first, second := len(first.named("data-job")), len(second.named("data-job")); first != pageSize || second != 10 {
		t.Errorf("the first page has %d, the second %d", first, second)
	}
	f.dashboard.patience = 0
	search("Needle").has(t, "without patience", http.StatusOK, `id="short"`, `id="more"`)
}

// The index shows the newest time, growth and most frequent error of each topic, in order. A topic's page
// groups errors that differ only in numbers, acts on a group as a whole, and keeps the lines of stack traces.
func TestDeadPages(t *testing.T) {
	f := start(t, web.Options{})
	for n := range 3 {
		f.bury("many", fmt.Sprint("m", n), "body", "buried", fmt.Sprintf("order %d: no answer in %d ms", n, 100*n))
	}
	f.bury("many", "p", "body", "buried", "panic: <b>\ngoroutine 1\n\tmain.go:3")
	f.bury("few", "f", "body", "buried", "other")
	f.Do("ZADD", "delayer:dead_letters:few", time.Now().Add(-48*time.Hour).UnixMilli(), "f")
	page := f.get("/ui/dead")
	page.has(t, "index", http.StatusOK, "order 2: no answer in 200 ms", "other", `data-growth data-label="In the last hour">+4`, `data-growth data-label="In the last hour">0`, "2 d ago")
	if got := page.named("data-row"); !slices.Equal(got, []string{"many", "few"}) {
		t.Errorf("in the order %q", got)
	}
	if got := f.get("/ui/dead?sort=name").named("data-row"); !slices.Equal(got, []string{"few", "many"}) {
		t.Errorf("by name %q", got)
	}
	page = f.get(link("/ui/dead/topic", "topic", "many"))
	page.has(t, "topic", http.StatusOK, "data-differ", `<details class="trace"><summary><bdi>panic: &lt;b&gt;</bdi> …</summary><pre><bdi>panic: &lt;b&gt;`+"\ngoroutine 1\n\tmain.go:3")
	if n := strings.Count(page.body, "data-group"); n != 2 {
		t.Errorf("%d groups", n)
	}
	if strings.Contains(page.body, `\x0a`) {
		t.Error("a line break is spelled")
	}
	f.post("/ui/act/drop_dead", "topic", "many", "group", "1", "reason", "buried", "error", "order 0: no answer in 0 ms")
	if got := f.Strings("ZRANGE", "delayer:dead_letters:many", 0, -1); !slices.Equal(got, []string{"p"}) {
		t.Errorf("of the topic there are %q", got)
	}
}
