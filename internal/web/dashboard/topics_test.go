package dashboard

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/inspect"
	"github.com/mix-basic/delayer/internal/store"
	"github.com/mix-basic/delayer/internal/testing/clienttest"
	"github.com/mix-basic/delayer/internal/testing/redistest"
	"github.com/mix-basic/delayer/internal/web"
	"github.com/mix-basic/delayer/server"
)

// TestManyTopics pages through many topics in any order, topics with jobs first, and filters by a text.
func TestManyTopics(t *testing.T) {
	f := start(t, web.Options{})
	args := []any{"delayer:topics"}
	const idle = 1000
	for i := range idle {
		args = append(args, 0, fmt.Sprintf("idle-%04d", i))
	}
	f.Do("ZADD", args...)
	f.push("zz-waiting", "b", "x", time.Hour)
	for i := range 3 {
		f.push("zz-ready", fmt.Sprint("a", i), "x", 0)
	}
	f.bury("zz-dead <b>", "d", "x", "r", "e")
	f.bury("zz-dead <b>", "d2", "x", "r", "e")
	for _, c := range []struct {
		query string
		first []string
		says  string
	}{
		{"", []string{"zz-ready", "zz-dead <b>", "zz-waiting", "idle-0000"}, "1 to 50 of 1,003"},
		{"?sort=name", []string{"idle-0000", "idle-0001"}, "1 to 50 of 1,003"},
		{"?sort=dead", []string{"zz-dead <b>", "idle-0000"}, "1 to 50 of 1,003"},
		{"?sort=waiting", []string{"zz-waiting", "idle-0000"}, "1 to 50 of 1,003"},
		{"?sort=ready", []string{"zz-ready", "idle-0000"}, "1 to 50 of 1,003"},
		{"?sort=overdue", []string{"zz-ready", "idle-0000"}, "1 to 50 of 1,003"},
		{"?sort=<script>", []string{"zz-ready", "zz-dead <b>"}, "1 to 50 of 1,003"},
		{"?page=2", []string{"idle-0047"}, "51 to 100 of 1,003"},
		{"?page=21", []string{"idle-0997", "idle-0998", "idle-0999"}, "1,001 to 1,003 of 1,003"},
		{"?q=zz-", []string{"zz-ready", "zz-dead <b>", "zz-waiting"}, "1 to 3 of 3"},
		{"?q=-00&page=2&sort=name", []string{"idle-0050"}, "51 to 100 of 100"},
		{"?q=nothing", nil, "No topic matches"},
	} {
		got := f.get("/ui/topics" + c.query)
		checkPage(t, "en", c.query, got)
		got.has(t, c.query, http.StatusOK, c.says)
		topics := got.named("data-row")
		if len(topics) < len(c.first) || len(topics) > pageSize || !slices.Equal(topics[:len(c.first)], c.first) {
			t.Errorf("%s: %q, want %q", c.query, topics, c.first)
		}
		if len(got.body) > 100<<10 {
			t.Errorf("%s: %d bytes", c.query, len(got.body))
		}
	}
}

// TestMoreTopicsThanAreCounted checks that the page reports this, and that the filter finds the rest.
func TestMoreTopicsThanAreCounted(t *testing.T) {
	f := start(t, web.Options{})
	f.Do("EVAL", "for i = 1, ARGV[1] do redis.call('ZADD', KEYS[1], i, string.format('topic-%06d', i)) end", 1, "delayer:topics", inspect.MostTopics+500)
	f.Do("RPUSH", "delayer:ready_queue:topic-000007", "x", "y")
	got := f.get("/ui/topics")
	got.has(t, "topics", http.StatusOK, `id="topics-cut"`, "The 10,000 topics used last are counted, of 10,500")
	got = f.get("/ui/topics?q=000007")
	got.has(t, "the filter", http.StatusOK, "1 to 1 of 1", `state=ready&amp;topic=topic-000007">2</a>`)
	f.Do("EVAL", "for i = 1, ARGV[1] do redis.call('ZADD', KEYS[1], 20000 + i, string.format('more-%06d', i)) end", 1, "delayer:topics", 100000)
	f.dashboard.touch()
	if topics := f.get("/ui/topics?q=topic-000007").named("data-row"); !slices.Equal(topics, []string{"topic-000007"}) {
		t.Errorf("by its whole name %q are found", topics)
	}
}

// TestBehindNamesAll checks that topics with slow consumers are named and linked, worst first, with the
// number of further ones.
func TestBehindNamesAll(t *testing.T) {
	f := start(t, web.Options{})
	for i := range 7 {
		f.Do("HSET", fmt.Sprint("delayer:job_bucket:j", i), "topic", fmt.Sprint("slow<", i), "body", "x")
		f.Do("EXPIRE", fmt.Sprint("delayer:job_bucket:j", i), 7*24*3600-300-60*i)
		f.Do("ZADD", "delayer:job_pool", time.Now().Add(time.Duration(-300-60*i)*time.Second).Unix(), fmt.Sprint("j", i))
	}
	stop := redistest.Background(t, clienttest.Server(f.Pool(), server.Options{}).Run)
	eventually(t, "all are ready", func() bool { return len(f.State().Ready) == 7 })
	stop()
	f.dashboard.touch()
	names := regexp.MustCompile(`<li>No consumer is listening.*</li>`).FindString(f.get("/").body)
	topics := response{body: names}.named("data-topic")
	if want := []string{"slow<6", "slow<5", "slow<4", "slow<3", "slow<2"}; !slices.Equal(topics, want) || !strings.Contains(names, `<a href="ui/topics?sort=overdue">and 2 more</a>`) {
		t.Errorf("named are %q: %s", topics, names)
	}
}

// If pauses can't be read, the topics are shown without them.
func TestTopicsWithoutPauses(t *testing.T) {
	f := start(t, web.Options{})
	f.push("topic", "id", "body", time.Hour)
	f.Do("SET", "delayer:paused", "broken")
	f.get("/ui/topics").has(t, "topics", http.StatusOK, `data-row="topic"`)
}

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
