package dashboard

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
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

// TestHistory checks the points, rates and gaps of the servers' history.
func TestHistory(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(1700000000+int64(s), 0) }
	kept := func(s int, acked int64, jobs ...int64) store.Past {
		p := store.Past{From: at(s), Until: at(s + 10), Acked: acked}
		copy(p.Lateness.Counts[:], jobs)
		return p
	}
	servers := []store.ServerState{{}}
	servers[0].Lateness.Counts[3] = 7
	past := []store.Past{kept(-500, 5), kept(0, 10, 50), kept(10, 30), kept(20, -1, 20), kept(30, 80), kept(50, 100), kept(60, 90, 10)}
	h := historyOf(past, servers, at(100))
	var got []string
	for _, p := range h.Points {
		got = append(got, fmt.Sprintf("%.0f: %v %v %t", seconds(p.At)-seconds(at(0)), p.Moved, p.Acked, p.Worst != nil))
	}
	want := []string{"-490: 0 <nil> false", "-490: <nil> <nil> false", "10: 5 <nil> true", "20: 0 2 false", "30: 2 <nil> true", "40: 0 <nil> false", "60: 0 1 false", "70: 1 0 true"}
	if !slices.Equal(got, want) || h.Most != 2 || !h.Points[1].At.After(h.Points[0].At) {
		t.Errorf("got  %q\nwant %q, %v", got, want, h.Most)
	}
	if r := h.Rates; !r.Known || r.Moved != 1 || r.Acked != 0 || r.Late.Jobs() != 10 || r.LateSinceEver {
		t.Errorf("the last rates: %+v", r)
	}
	if r := historyOf(past[:4], servers, at(31)).Rates; !r.Known || r.Moved != 2 || r.Acked != inspect.Unknown {
		t.Errorf("without a count of acknowledged jobs: %+v", r)
	}
	if r := historyOf(past[:5], servers, at(41)).Rates; !r.Known || r.Moved != 0 || r.Late.Jobs() != 7 || !r.LateSinceEver {
		t.Errorf("without jobs: %+v", r)
	}
	for _, none := range [][]store.Past{past, nil} { // too long ago, none
		if r := historyOf(none, servers, at(200)).Rates; r.Known || r.Moved != 0 || r.Late.Jobs() != 7 || !r.LateSinceEver {
			t.Errorf("without a history: %+v", r)
		}
	}
	all := []point{{At: at(1)}, {At: at(2)}, {At: at(3)}}
	for since, want := range map[string]int{"": 3, "x": 3, "NaN": 3, "1700000000": 3, "1700000002": 1, "1700000003": 0, "1700000001.5": 2, "inf": 0} {
		if got := after(all, since); len(got) != want {
			t.Errorf("after %q there are %d", since, len(got))
		}
	}
}

// TestHistoryIsShown checks that the last hour is on the page at once, even after a restart of the HTTP
// server, and that unrecorded time is a gap. Without a history there are no rates, and it is not claimed that no
// job fell due.
func TestHistoryIsShown(t *testing.T) {
	f := start(t, web.Options{})
	f.Do("HSET", "delayer:servers", "old", fmt.Sprintf(`{"now":%d,"started":1,"interval":1000,"host":"h","pid":1,"version":"1","moved":10,"returned":0,"dropped":0,"passes":1,"lateness":[10%s],"late":0,"error":""}`,
		int64(f.Clock()*1000), strings.Repeat(",0", len(store.Lateness{}.Counts)-1)))
	f.get("/").has(t, "without a history", http.StatusOK, "since the servers started", `<dd id="n-moved">–<`)
	if strings.Contains(f.get("/").body, "No job fell due") {
		t.Error("without a history no job fell due")
	}
	clock := int64(f.Clock())
	slot := clock / 10
	for n, entry := range map[int64]string{200: "100 3:500", 199: "400 3:20,5:10", 2: "400 ", 1: "410 2:10"} {
		f.Do("HSET", "delayer:history", (slot-n)%360, fmt.Sprintf("%d %s", slot-n, entry))
	}
	f.push("topic", "a", "body", 0)
	f.dashboard.readings = newReadings(f.dashboard.inspector, nil)
	f.dashboard.touch()
	var live struct{ Past, Now [][]any }
	check(t, json.Unmarshal([]byte(f.get("/ui/live.json").body), &live))
	want := [][]any{{50.0, nil}, {3.0, 30.0}, {nil, nil}, {0.0, nil}, {1.0, 1.0}}
	if len(live.Past) != 5 || len(live.Past[0]) != len(want) {
		t.Fatalf("the charts: %v", live.Past)
	}
	for row, want := range want {
		if moved, acked := live.Past[1][row], live.Past[2][row]; moved != want[0] || acked != want[1] {
			t.Errorf("point %d: moved %v, acked %v, want %v", row, moved, acked, want)
		}
	}
	if now := live.Now; len(now) != 3 || now[0][0].(float64) < float64(clock) || now[1][0] != 1.0 || now[2][0] != 0.0 {
		t.Errorf("now: %v", now)
	}
	overview := f.get("/")
	overview.has(t, "the overview", http.StatusOK, `<dd id="n-moved">1<`, `<dd id="n-acked">1<`)
	f.get("/ui/consumers").has(t, "consumers", http.StatusOK, `<dd id="n-acked">1<`, `<dd id="n-taken">30<`)
	if strings.Contains(overview.body, "since the servers started") {
		t.Errorf("with a history: %s", overview.body)
	}
	if err := json.Unmarshal([]byte(f.get(fmt.Sprintf("/ui/live.json?since=%d", 10*slot-10)).body), &live); err != nil || len(live.Past[0]) != 1 {
		t.Errorf("what is new: %v, %v", live.Past, err)
	}
}

// A page shows what an action has changed, although other viewers share a reading.
func TestAfterAnAction(t *testing.T) {
	f := start(t, web.Options{})
	f.push("topic", "a", "body", 0)
	f.get("/").has(t, "before", http.StatusOK, `<a href="ui/topics?sort=ready">1<`)
	f.post("/ui/act/remove", "id", "a")
	f.get("/").has(t, "after it", http.StatusOK, `<a href="ui/topics?sort=ready">0<`)
}

// TestLive follows a working server.
func TestLive(t *testing.T) {
	f := start(t, web.Options{})
	stop := redistest.Background(t, clienttest.Server(f.Pool(), server.Options{Version: "9.8.7"}).Run)
	f.push("topic", "id", "body", 50*time.Millisecond)
	f.reserve("topic").Ack(t.Context())
	check(t, f.Pause(t.Context(), "paused", client.PauseOptions{}))
	var live struct {
		Parts map[string]string
	}
	eventually(t, "the server is seen", func() bool {
		got := f.get("/ui/live.json", "Accept-Language", "zh")
		got.has(t, "live", http.StatusOK)
		check(t, json.Unmarshal([]byte(got.body), &live))
		return strings.Contains(live.Parts["servers"], "9.8.7") && strings.Contains(live.Parts["numbers"], "毫秒")
	})
	stop()
	for _, name := range liveParts {
		if name == "partitions" { // absent with one partition
			if _, there := live.Parts[name]; there || strings.Contains(f.get("/").body, `data-part="partitions"`) {
				t.Errorf("a single partition is shown: %s", live.Parts[name])
			}
		} else if live.Parts[name] == "" || !strings.Contains(f.get("/").body, `data-part="`+name+`"`) {
			t.Errorf("no part %s", name)
		}
	}
	if !strings.Contains(live.Parts["status"], `data-level="ok"`) {
		t.Errorf("status: %s", live.Parts["status"])
	}
}

// TestStatus checks the verdicts.
func TestStatus(t *testing.T) {
	alive := []store.ServerState{{Age: time.Second}}
	failing := []store.ServerState{{Age: time.Second, Error: "refused", Host: "<host>"}}
	for _, c := range []struct {
		name        string
		s           state
		level, says string
	}{
		{"nothing there", state{}, "ok", "No job is overdue"},
		{"at work", state{Servers: alive, Counts: inspect.Counts{Pool: 5}}, "ok", "No job is overdue"},
		{"old server", state{Counts: inspect.Counts{Pool: 5}}, "warn", "no server has reported"},
		{"a bit late", state{Servers: alive, Counts: inspect.Counts{Pool: 5, Overdue: 3 * time.Second}}, "warn", "3 s overdue"},
		{"late", state{Servers: alive, Counts: inspect.Counts{Pool: 5, Overdue: time.Minute}}, "bad", "1 min overdue"},
		{"nobody moves", state{Counts: inspect.Counts{Pool: 5, Overdue: time.Minute}}, "bad", "no server has reported"},
		{"late in one", state{Servers: alive, Counts: inspect.Counts{Pool: 5, Overdue: time.Minute, Partitions: []inspect.PartitionCounts{{Overdue: time.Second}, {Number: 1, Overdue: time.Minute}, {Number: 2}}}}, "bad", "Partition 1 is the latest."},
		{"late in one, and nobody knows of another", state{Servers: alive, Counts: inspect.Counts{Overdue: inspect.Unknown, Partitions: []inspect.PartitionCounts{{Overdue: time.Minute}, {Number: 1, Overdue: inspect.Unknown}}}}, "bad", "Partition 1 is the latest."},
		{"unreadable", state{Servers: alive, Counts: inspect.Counts{Overdue: inspect.Unknown}}, "bad", "can't be read"},
		{"failing", state{Servers: failing}, "warn", "<host>"},
		{"neglected", state{Servers: alive, Counts: inspect.Counts{Topics: []inspect.TopicCounts{{Topic: "a", AtLeast: time.Second}, {Topic: "b\x00", AtLeast: time.Hour}}}}, "warn", `\x00`},
		{"a schedule is late", state{Servers: alive, Schedules: inspect.ScheduleStates{Active: 1, Overdue: time.Minute}}, "warn", "A schedule is 1 min overdue"},
		{"schedules are on time", state{Servers: alive, Schedules: inspect.ScheduleStates{Active: 1, Overdue: time.Second}}, "ok", "No job is overdue"},
		{"paused", state{Servers: alive, Pauses: inspect.Pauses{{Topic: "a"}}, Counts: inspect.Counts{Topics: []inspect.TopicCounts{{Topic: "a", AtLeast: time.Hour}}}}, "ok", "No job is overdue"},
		{"throttled", state{Servers: alive, Counts: inspect.Counts{Topics: []inspect.TopicCounts{{Topic: "a", Ready: 1, Throttled: 1, Overdue: inspect.Unknown}}}}, "ok", "No job is overdue"},
		{"nobody knows", state{Servers: alive, Counts: inspect.Counts{Topics: []inspect.TopicCounts{{Topic: "a"}, {Topic: "b", Ready: 1, Overdue: inspect.Unknown, AtLeast: time.Second}}}}, "warn", "unknown for how long"},
		{"nobody is there to know of", state{Servers: alive, Counts: inspect.Counts{Topics: []inspect.TopicCounts{{Topic: "b", Overdue: inspect.Unknown}}}}, "ok", "No job is overdue"},
	} {
		if st := english.statusOf(&c.s); st.Level != c.level || !strings.Contains(st.Line+fmt.Sprintf("%q", st.More), c.says) {
			t.Errorf("%s: %+v", c.name, st)
		}
	}
}

// Hanging sentinels do not delay Redis's numbers.
func TestSentinelsThatHang(t *testing.T) {
	f := start(t, web.Options{})
	f.push("topic", "a", "body", time.Hour)
	f.dashboard.readings = newReadings(f.dashboard.inspector, func(ctx context.Context) (string, error) {
		if deadline, ok := ctx.Deadline(); !ok || time.Until(deadline) > 500*time.Millisecond {
			t.Errorf("a page waits for them until %v", deadline)
		}
		<-ctx.Done()
		return "", ctx.Err()
	})
	f.get("/").has(t, "the overview", http.StatusOK, `<a href="ui/topics?sort=waiting">1<`)
}

// Several partitions have a table with the servers' reports, in both languages.
func TestPartitions(t *testing.T) {
	r := redistest.Start(t)
	f := startWith(t, web.Options{}, r, r.Addr, 3)
	for _, id := range []string{"0", "1", "2", "3", "4"} { // in partitions 2, 2, 0, 0 and 0
		f.push("topic", id, "body", time.Hour)
	}
	f.Do("LPUSH", "delayer:{0}:ready_queue:topic", "a", "b")
	f.Do("ZADD", "delayer:{1}:dead_letters:topic", 1, "d")
	f.Do("ZADD", "delayer:{1}:topics", 0, "topic")
	f.Do("ZADD", "delayer:{2}:job_pool", f.Clock()-3600, "late")
	_, err := store.New(f.Pool(), "delayer:{0}:").Heartbeat(store.ServerState{ID: "server", Host: hostile[0], PID: 77, Interval: time.Second}, 1, 0).Do(t.Context())
	check(t, err)
	for _, lang := range languages {
		page := f.get("/", "Accept-Language", lang)
		checkPage(t, lang, "/", page)
		table := regexp.MustCompile(`(?s)<table id="partitions">.*?</table>`).FindString(page.body)
		var rows []string
		for _, row := range strings.SplitAfter(table, "</tr>")[1:] {
			rows = append(rows, strings.Join(strings.Fields(tags.ReplaceAllString(row, " ")), " "))
		}
		for i, want := range []string{`0 3 2 0 0 – .* 77`, `1 0 0 0 1 – .* 77`, `2 3 0 0 0 1 (h|小时).* 77`, ``} {
			if len(rows) != 4 || !regexp.MustCompile("^"+want+"$").MatchString(rows[i]) {
				t.Errorf("%s: row %d of %q, want %s", lang, i, rows, want)
			}
		}
		page.has(t, lang, http.StatusOK, map[string]string{"en": "Partition 2 is the latest.", "zh": "分区 2 最晚。"}[lang])
	}
	f.get("/ui/live.json").has(t, "live", http.StatusOK, `data-partition=\"2\"`)
	f.crawl("en")
}

// An unreadable partition is named with the reason, and the others are counted.
func TestBrokenPartition(t *testing.T) {
	r := redistest.Start(t)
	f := startWith(t, web.Options{}, r, r.Addr, 3)
	for _, id := range []string{"0", "1", "2", "3", "4"} { // in partitions 2, 2, 0, 0 and 0
		f.push("topic", id, "body", time.Hour)
	}
	f.Do("LPUSH", "delayer:{2}:ready_queue:topic", "a")
	f.Do("DEL", "delayer:{0}:job_pool")
	f.Do("SET", "delayer:{0}:job_pool", "broken")
	f.Do("SET", "delayer:{0}:schedules", "broken")
	f.get("/").has(t, "overview", http.StatusOK, `data-level="bad"`, "Some partitions can&#39;t be read: 0.", "partition 0: WRONGTYPE",
		`<dd id="n-waiting"><a href="ui/topics?sort=waiting">2</a>`, `<dd id="n-ready"><a href="ui/topics?sort=ready">1</a>`, "Not available now")
	for _, path := range []string{"/ui/topics", "/ui/consumers", link("/ui/topic", "topic", "topic"), "/ui/dead", "/ui/schedules"} {
		f.get(path).has(t, path, http.StatusOK, `class="notice bad broken"`, "partition 0: WRONGTYPE")
	}
	if page := f.get(link("/ui/act/purge", "topic", "topic")); page.status != http.StatusOK || !strings.Contains(page.body, "partition 0: WRONGTYPE") {
		t.Errorf("who wants to purge is told %d %s", page.status, page.body)
	}
	f.Do("DEL", "delayer:{0}:job_pool", "delayer:{0}:schedules")
	f.dashboard.touch()
	if page := f.get("/"); strings.Contains(page.body, "can&#39;t be") {
		t.Errorf("when it is mended: %s", page.body)
	}
}

// With very many partitions, the latest ones are shown, in order.
func TestManyPartitions(t *testing.T) {
	s := &state{}
	for n := range 1024 {
		s.Partitions = append(s.Partitions, inspect.PartitionCounts{Number: n})
	}
	s.Partitions[1000].Overdue, s.Partitions[900].Overdue = time.Second, inspect.Unknown
	table := partitionsOf(s)
	if n := len(table.Rows); n != maxPartitions || table.Others != 1024-maxPartitions || table.Rows[0].Number != 0 || table.Rows[n-2].Number != 900 || table.Rows[n-1].Number != 1000 {
		t.Errorf("%d are shown, %d not: %+v", n, table.Others, table.Rows)
	}
}
