package dashboard

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/client/delayertest"
	"github.com/mix-basic/delayer/internal/store"
	"github.com/mix-basic/delayer/internal/testing/redistest"
	"github.com/mix-basic/delayer/internal/web"
)

func (f *fixture) schedule(name string, paused bool) {
	f.TB.Helper()
	_, err := f.Schedules().Set(f.TB.Context(), client.Schedule{Name: name, Cron: "0 7 * * mon-fri", Zone: "Europe/Berlin", Topic: "t<", Body: "b"})
	check(f.TB, err)
	if paused {
		check(f.TB, f.Schedules().Pause(f.TB.Context(), name))
	}
}

// The page shows each schedule, its next run, and the outcomes of the last runs.
func TestSchedulesPage(t *testing.T) {
	f := start(t, web.Options{})
	f.get("/ui/schedules").has(t, "none", http.StatusOK, "There are no schedules.")
	f.schedule("<b>report", false)
	f.schedule("paused", true)
	for _, overlap := range []string{"skip", "follow"} {
		check(t, errOf(f.Schedules().Set(t.Context(), client.Schedule{Name: string(overlap), Every: time.Hour, Topic: "t", Body: "b", Overlap: overlap})))
	}
	_, err := f.Schedules().Run(t.Context(), "<b>report")
	check(t, err)
	key := "delayer:job_bucket:{<b>report}@schedule"
	f.Do("HSET", key, "past", "1795322061250r3 1795322061350l70000 1795322061450o1 1795322061550p2", "late", 5, "overlapped", 1)
	f.get("/ui/schedules").has(t, "english", http.StatusOK, "&lt;b&gt;report", "0 7 * * mon-fri", "Europe/Berlin", "pushed", "no job: too late", "1 min 10 s late",
		"previous job not done", "no job: paused", "too late: 5", "previous job not done: 1", `data-paused>Paused</strong> <span class="note">since <time`, `data-do="resume_schedule"`,
		`data-overlap="skip">skipped while`, `data-overlap="follow">after the previous job`, "<bdi>@every 1h</bdi>")
	f.get("/ui/schedules?lang=zh").has(t, "chinese", http.StatusOK, "未推送：太迟", "已暂停", "恢复")
	if got := f.get("/ui/schedules"); strings.Contains(got.body, "data-late") {
		t.Error("one is late that is not")
	}
	f.Do("HSET", key, "next", time.Now().Add(-time.Minute).UnixMilli())
	f.get("/ui/schedules").has(t, "late", http.StatusOK, "data-late", "is a server running?")
	f.get("/").has(t, "late, overview", http.StatusOK, "A schedule is 1 min overdue")
}

// Each filter shows its schedules and their number. Paused schedules come last and are never late.
func TestScheduleFilters(t *testing.T) {
	f := start(t, web.Options{})
	for _, name := range []string{"fine", "late", "without", "paused"} {
		f.schedule(name, name == "paused")
	}
	key := func(name string) string { return "delayer:job_bucket:{" + name + "}@schedule" }
	for _, name := range []string{"late", "paused"} {
		f.Do("HSET", key(name), "next", time.Now().Add(-time.Minute).UnixMilli())
	}
	f.Do("HSET", key("without"), "paused_moments", 0, "late", 2)
	for show, want := range map[string][]string{"": {"late", "fine", "without", "paused"}, "paused": {"paused"}, "late": {"late"}, "without": {"without"}, "else": {"late", "fine", "without", "paused"}} {
		page := f.get("/ui/schedules?show=" + show)
		if got := page.named("data-row"); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", show, got, want)
		}
		page.has(t, show, http.StatusOK, `data-show="late"`, "<b>4</b>", "<b>1</b>")
	}
	if got := f.get("/ui/schedules?q=pau").named("data-row"); !slices.Equal(got, []string{"paused"}) {
		t.Errorf("by name: %q", got)
	}
	f.get("/ui/schedules?q=zz&lang=zh").has(t, "none", http.StatusOK, "没有符合条件的定时任务")
}

// Schedules wait in the pool like jobs, under an internal topic that is not listed. If somebody puts a job
// into that topic's queue, the topic is listed like any other.
func TestSchedulesAreNoTopic(t *testing.T) {
	f := start(t, web.Options{})
	f.schedule("nightly", false)
	_, err := f.Push(t.Context(), client.Message{Topic: "mail", Body: "b"}, time.Hour)
	check(t, err)
	const row = "<bdi>" + store.ScheduleTopic + "</bdi>"
	for _, path := range []string{"/ui/topics", "/ui/topics?lang=zh", "/ui/topics?q=d"} {
		if page := f.get(path); page.status != http.StatusOK || strings.Contains(page.body, row) {
			t.Errorf("%s: %d, the topic of schedules is among the others", path, page.status)
		}
	}
	f.get("/ui/topics").has(t, "topics", http.StatusOK, "<bdi>mail</bdi>")
	f = start(t, web.Options{})
	check(t, errOf(f.Push(t.Context(), client.Message{Topic: store.ScheduleTopic, Body: "b"}, 0)))
	f.get("/ui/topics").has(t, "with a job", http.StatusOK, row)
}

// Lateness is measured by Redis's clock, even if this machine's is wrong.
func TestLateSchedulesByTheClockOfRedis(t *testing.T) {
	d := delayertest.New(t)
	_, err := d.Client().Schedules().Set(t.Context(), client.Schedule{Name: "a", Cron: "@daily", Topic: "t", Body: "b"})
	check(t, err)
	d.Forward(t, 72*time.Hour)
	addr := strings.TrimPrefix(d.URL(), "redis://")
	conn, err := redis.Dial("tcp", addr)
	check(t, err)
	defer conn.Close()
	f := startOn(t, web.Options{}, redistest.Start(t), addr)
	for ago, late := range map[time.Duration]bool{time.Minute: true, -time.Minute: false} {
		_, err := conn.Do("HSET", "delayer:job_bucket:{a}@schedule", "next", d.Now().Add(-ago).UnixMilli())
		check(t, err)
		if page := f.get("/ui/schedules"); strings.Contains(page.body, "data-late") != late {
			t.Errorf("a moment %v ago is late: %v", ago, !late)
		}
	}
}

// Each action on a schedule works and is reported.
func TestScheduleActions(t *testing.T) {
	f := start(t, web.Options{})
	for _, c := range []struct{ action, says string }{
		{"run_now", "A job of the schedule was pushed."}, {"pause_schedule", "The schedule is paused."}, {"resume_schedule", "The schedule is resumed."}, {"unschedule", "The schedule was deleted."},
	} {
		f.Do("FLUSHALL")
		f.schedule("a b", c.action == "resume_schedule")
		for _, says := range []string{c.says, "There was nothing left to do."} {
			got := f.send("POST", "/ui/act/"+c.action, url.Values{"schedule*": {pack("a b")}}.Encode(), "Content-Type", "application/x-www-form-urlencoded", "Origin", f.site.URL)
			if got.status != http.StatusSeeOther || !strings.HasPrefix(got.header.Get("Location"), "/ui/schedules") {
				t.Fatalf("%s: %d %s", c.action, got.status, got.body)
			}
			cookie, _, _ := strings.Cut(got.header.Get("Set-Cookie"), ";")
			f.get(got.header.Get("Location"), "Cookie", cookie).has(t, c.action, http.StatusOK, says)
			check(t, errOf(f.Schedules().Remove(t.Context(), "a b")))
		}
	}
	f.schedule("a b", false)
	f.get(link("/ui/act/unschedule", "schedule", "a b")).has(t, "confirm", http.StatusOK, "The schedule is deleted; its jobs stay.", "a b")
	if all, err := f.Schedules().List(t.Context()); err != nil || len(all) != 1 {
		t.Errorf("then there are %v, %v", all, err)
	}
}

func errOf[T any](_ T, err error) error { return err }
