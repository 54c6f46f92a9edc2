package dashboard

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/web"
)

// A topic's page and the list of topics show why nothing is delivered, and until when.
func TestPausedTopic(t *testing.T) {
	f := start(t, web.Options{})
	f.push("topic", "ready1", "body", 0)
	f.push("other", "ready2", "body", 0)
	got := f.get(link("/ui/topic", "topic", "topic"))
	got.has(t, "one that is not paused", http.StatusOK, `action="ui/act/pause"`, `data-do="pause"`)
	got.lacks(t, "one that is not paused", `id="paused"`, `data-do="resume"`)
	f.post("/ui/act/pause", "topic", "topic", "for", "2h", "note", "<b>ask Eve</b>")
	got = f.get(link("/ui/topic", "topic", "topic"))
	got.has(t, "paused", http.StatusOK, `id="paused"`, `&lt;b&gt;ask Eve&lt;/b&gt;`, `id="since"`, `id="until"><time`, `data-do="resume"`, "ready1")
	got.lacks(t, "paused", `id="backed-off"`)
	check(t, f.BackOff(t.Context(), "topic", time.Hour))
	check(t, f.Pause(t.Context(), "topic", client.PauseOptions{}))
	f.get(link("/ui/topic", "topic", "topic")).has(t, "without end", http.StatusOK, "no end", `id="backed-off"><time`)
	topics := f.get("/ui/topics")
	topics.has(t, "the topics", http.StatusOK, `data-paused`)
	f.post("/ui/act/resume", "topic", "topic")
	check(t, f.BackOff(t.Context(), "topic", time.Hour))
	got = f.get(link("/ui/topic", "topic", "topic"))
	got.has(t, "backed off", http.StatusOK, `id="backed-off"`)
	got.lacks(t, "backed off", `id="since"`)
	f.post("/ui/act/resume", "topic", "topic")
	f.get("/ui/topics").lacks(t, "resumed", `data-paused`)
}

func (a response) lacks(t testing.TB, what string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if strings.Contains(a.body, part) {
			t.Errorf("%s: there is %q", what, part)
		}
	}
}
