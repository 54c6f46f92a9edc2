package dashboard

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/inspect"
	"github.com/mix-basic/delayer/internal/store"
	"github.com/mix-basic/delayer/internal/testing/redistest"
	"github.com/mix-basic/delayer/internal/web"
)

// waits makes this program wait for jobs of the topics.
func (f *fixture) waits(topics ...string) {
	f.TB.Helper()
	redistest.Background(f.TB, func(ctx context.Context) error {
		f.Reserve(ctx, time.Minute, topics...)
		return nil
	})
	for _, topic := range topics {
		f.AwaitWaiter(topic)
	}
	eventually(f.TB, "it says who it is", func() bool { return len(f.Strings("KEYS", "delayer:client:*")) == 1 })
}

// A topic's page and the consumers page name the waiting programs. They distinguish a topic without
// consumers from a topic with slow consumers.
func TestWhoConsumes(t *testing.T) {
	f := start(t, web.Options{})
	f.waits("served", "also")
	f.Do("ZADD", "delayer:topics", f.Clock(), "served", f.Clock(), "also")
	f.push("alone", "a", "body", 0)
	f.push("slow", "s", "body", 0)
	f.push("slow", "s2", "body", 0)
	f.push("paused", "p", "body", 0)
	f.reserve("slow")
	check(t, f.Pause(t.Context(), "paused", client.PauseOptions{}))
	me := store.ThisProgram()
	f.get(link("/ui/topic", "topic", "served")).has(t, "served", http.StatusOK, `data-listening="1"`, `<bdi>`+me.Name+`</bdi>`, fmt.Sprint(os.Getpid()))
	f.get(link("/ui/topic", "topic", "alone")).has(t, "alone", http.StatusOK, `data-listening="0"`, `class="warning">nobody`, `id="overdue"`)
	f.get(link("/ui/topic", "topic", "slow")+"&lang=zh").has(t, "slow", http.StatusOK, `data-listening="0"`, "已逾期")
	page := f.get("/ui/consumers")
	checkPage(t, "en", "/ui/consumers", page)
	page.has(t, "consumers", http.StatusOK, `data-program="`+pack(me.Name)+`"`, "data-paused")
	if got, want := slices.Sorted(slices.Values(page.named("data-row"))), []string{"alone", "also", "paused", "served", "slow"}; !slices.Equal(got, want) {
		t.Errorf("the topics are %q", got)
	}
	f.get("/ui/consumers?sort=listening").has(t, "sorted", http.StatusOK, `aria-sort="descending"`)
	if got := f.get("/ui/consumers?q=alo").named("data-row"); !slices.Equal(got, []string{"alone"}) {
		t.Errorf("filtered: %q", got)
	}
	f.get("/ui/consumers?q=nothing").has(t, "no match", http.StatusOK, "No topic or program matches")
	if got := f.get("/ui/topics?show=alone").named("data-row"); !slices.Equal(got, []string{"alone"}) {
		t.Errorf("without a consumer: %q", got)
	}
	// The lifetimes of the buckets show since when the jobs are ready.
	for _, id := range []string{"a", "s2", "p"} {
		f.Do("PEXPIRE", "delayer:job_bucket:"+id, (7*24*time.Hour - 2*time.Minute).Milliseconds())
	}
	f.dashboard.readings = newReadings(f.dashboard.inspector, nil)
	f.dashboard.touch()
	if got := f.get("/ui/topics?show=late").named("data-row"); !slices.Equal(got, []string{"alone", "slow"}) && !slices.Equal(got, []string{"slow", "alone"}) {
		t.Errorf("late: %q", got)
	}
	status := f.get("/").body
	status = status[strings.Index(status, `id="status"`):strings.Index(status, `id="n-waiting"`)]
	alone, slow := strings.Index(status, "No consumer is listening"), strings.Index(status, "Consumers are too slow")
	if alone < 0 || slow < alone || !strings.Contains(status[alone:slow], pack("alone")) || strings.Contains(status[alone:slow], pack("slow")) || !strings.Contains(status[slow:], pack("slow")) {
		t.Errorf("the status: %s", status)
	}
	f.Do("ACL", "SETUSER", "default", "-pubsub")
	f.get(link("/ui/topic", "topic", "served")).has(t, "who may not know", http.StatusOK, `data-listening="-1"`)
	f.get("/ui/consumers").has(t, "consumers, who may not know", http.StatusOK, `id="refused"`)
}

// A topic is shown as unconsumed only if the number of waiters is known.
func TestAlone(t *testing.T) {
	topics := []inspect.TopicCounts{{Topic: "a"}, {Topic: "b"}, {Topic: "c", Reserved: 1}, {Topic: "d"}}
	s := &state{Listening: map[string]int{"a": 0, "b": 1, "c": 0}}
	alone, slow := s.divide(topics)
	if len(alone) != 1 || alone[0].Topic != "a" || len(slow) != 3 {
		t.Errorf("alone %v, slow %v", alone, slow)
	}
}
