package dashboard

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/mix-basic/delayer/internal/inspect"
	"github.com/mix-basic/delayer/internal/store"
	"github.com/mix-basic/delayer/internal/testing/redistest"
	"github.com/mix-basic/delayer/internal/web"
)

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
