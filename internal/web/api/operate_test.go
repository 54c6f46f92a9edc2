package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/inspect"
	"github.com/mix-basic/delayer/internal/store"
	"github.com/mix-basic/delayer/internal/testing/clienttest"
	"github.com/mix-basic/delayer/internal/testing/redistest"
	"github.com/mix-basic/delayer/internal/view"
	"github.com/mix-basic/delayer/internal/web"
	"github.com/mix-basic/delayer/server"
)

func TestTopics(t *testing.T) {
	f := start(t, web.Options{})
	f.do("GET", "/v1/topics", "").expect(200, `{"topics":[]}`)
	f.do("GET", "/v1/topics/t", "").problem(notFound, "", "", "topic")
	f.push("a", "t")
	f.push("b", "t")
	f.push("c", "u")
	f.reserve("1m")
	u := `{"topic":"u","ready":1,"reserved":0,"dead":0,"overdue":"*","overdue_at_least":"*"}`
	f.do("GET", "/v1/topics", "").expect(200, `{"topics":[{"topic":"t","ready":1,"reserved":1,"dead":0,"overdue":"*","overdue_at_least":"*"},`+u+`]}`)
	f.do("GET", "/v1/topics/u", "").expect(200, u)
	f.redis.Do("DEL", "delayer:ready_queue:u")
	f.redis.Do("SET", "delayer:ready_queue:u", "no list")
	f.do("GET", "/v1/topics/u", "").expect(200, `{"topic":"u","ready":null,"reserved":0,"dead":0,"overdue":"*","overdue_at_least":"*"}`)
	f.do("DELETE", "/v1/topics/u/ready?dry_run=true", "").problem(refused, "", "", "can't be counted")
	f.expectFailures(1)
}

// All topics are listed page by page, including names that are not UTF-8, and can be filtered by a text.
func TestPagesOfTopics(t *testing.T) {
	f := start(t, web.Options{})
	for _, topic := range []string{"a", "ab", "\xff", "b"} {
		f.push("id of "+topic, topic)
	}
	row := func(name string) string {
		return `{` + name + `,"ready":1,"reserved":0,"dead":0,"overdue":"*","overdue_at_least":"*"}`
	}
	f.do("GET", "/v1/topics?limit=2", "").expect(200, `{"topics":[`+row(`"topic":"a"`)+`,`+row(`"topic":"ab"`)+`],"cursor":"YWI"}`)
	f.do("GET", "/v1/topics?limit=2&cursor=YWI", "").expect(200, `{"topics":[`+row(`"topic":"b"`)+`,`+row(`"topic_base64":"/w=="`)+`],"cursor":"_w"}`)
	f.do("GET", "/v1/topics?limit=2&cursor=_w", "").expect(200, `{"topics":[]}`)
	f.do("GET", "/v1/topics?contains=b", "").expect(200, `{"topics":[`+row(`"topic":"ab"`)+`,`+row(`"topic":"b"`)+`]}`)
	for query, parameter := range map[string]string{"limit=0": "limit", "limit=501": "limit", "cursor=!": "cursor"} {
		f.do("GET", "/v1/topics?"+query, "").problem(invalid, "", parameter, "want ")
	}
}

func TestBrowse(t *testing.T) {
	f := start(t, web.Options{})
	for _, id := range []string{"a", "b", "c"} {
		f.push(id, "t")
	}
	f.do("POST", "/v1/jobs", `{"id":"w","topic":"t","body":"`+strings.Repeat("ä", 1000)+`","delay":60}`)
	f.reserve("1m")
	f.do("GET", "/v1/topics/t/jobs?state=ready", "").expect(200, `{"jobs":[
		{"id":"b","topic":"t","state":"ready","attempts":0,"size":1,"preview":"b"},
		{"id":"c","topic":"t","state":"ready","attempts":0,"size":1,"preview":"b"}]}`)
	f.do("GET", "/v1/topics/t/jobs?state=waiting", "").expect(200, `{"jobs":[{"id":"w","topic":"t","state":"waiting","due":"*","attempts":0,"size":2000,"preview":"`+strings.Repeat("ä", 128)+`"}]}`)
	f.do("GET", "/v1/topics/t/jobs?state=reserved", "").expect(200, `{"jobs":[{"id":"a","topic":"t","state":"reserved","lease_ends":"*","attempts":1,"size":1,"preview":"b"}]}`)
	first := f.do("GET", "/v1/topics/t/jobs?state=ready&limit=1", "").expect(200, `{"jobs":["*"],"cursor":"*"}`)
	_, cursor, _ := strings.Cut(strings.TrimSuffix(first.body, "\"}\n"), `"cursor":"`)
	next := f.do("GET", "/v1/topics/t/jobs?state=ready&limit=1&cursor="+cursor, "")
	if !strings.Contains(next.body, `"id":"c"`) {
		t.Errorf("page 2 behind cursor %q: %s", cursor, next.body)
	}
	for query, parameter := range map[string]string{
		"": "state", "?state=": "state", "?state=dead": "state", "?state=gone": "state",
		"?state=ready&limit=0": "limit", "?state=ready&limit=501": "limit", "?state=ready&limit=x": "limit", "?state=ready&cursor=x": "cursor",
	} {
		f.do("GET", "/v1/topics/t/jobs"+query, "").problem(invalid, "", parameter, "want ")
	}
}

// Lists of jobs, also of all topics, can be filtered by the ID. A page may then have few jobs, or none, and a cursor all the same.
func TestMatch(t *testing.T) {
	f := start(t, web.Options{})
	f.some()
	for path, want := range map[string]string{
		"/v1/jobs?state=waiting":                   "a4 b2 a5",
		"/v1/jobs?state=reserved":                  "a1",
		"/v1/jobs?state=waiting&match=a*":          "a4 a5",
		"/v1/topics/t/jobs?state=ready&match=a*":   "a2 a3",
		"/v1/topics/t/jobs?state=ready&match=%3F1": "b1",
		"/v1/topics/t/jobs?state=ready&match=a":    "",
		"/v1/topics/u/jobs?state=waiting&match=*":  "a5",
		"/v1/dead/t?match=a*":                      "a6",
	} {
		var all []string
		for cursor := ""; ; {
			page := f.do("GET", path+"&limit=1&cursor="+cursor, "")
			if ids := page.ids(); ids != "" {
				all = append(all, ids)
			}
			var next struct{ Cursor string }
			check(t, json.Unmarshal([]byte(page.body), &next))
			if cursor = next.Cursor; cursor == "" {
				break
			}
		}
		if one := f.do("GET", path, "").ids(); one != want || strings.Join(all, " ") != want {
			t.Errorf("%s: %q, page by page %q, want %q", path, one, all, want)
		}
	}
	for query, parameter := range map[string]string{
		"": "state", "?state=": "state", "?state=ready": "state", "?state=dead": "state", "?state=waiting&limit=501": "limit", "?state=waiting&cursor=x": "cursor",
		"?state=waiting&match=": "match", "?state=waiting&match=" + strings.Repeat("x", maxID+1): "match",
	} {
		f.do("GET", "/v1/jobs"+query, "").problem(invalid, "", parameter, "want ")
	}
}

// some makes jobs in all states: of topic t, one of u, and two whose topic and ID are not UTF-8.
func (f *fixture) some() {
	f.t.Helper()
	f.bury("a6", "t", "bad", "closed")
	f.push("a1", "t")
	f.reserve("1h")
	for _, id := range []string{"a2", "a3", "b1"} {
		f.push(id, "t")
	}
	for i, job := range [][2]string{{"a4", "t"}, {"b2", "t"}, {"a5", "u"}} {
		_, err := f.Push(f.t.Context(), client.Message{ID: job[0], Topic: job[1], Body: "b"}, time.Duration(2+i)*time.Hour)
		check(f.t, err)
	}
	f.push("\xff1", "\xff")
	f.push("\xfe1", "\xff")
}

// Selected jobs of a topic are removed or rescheduled; the others stay as they are, and so do all with dry_run.
func TestChangeMany(t *testing.T) {
	const later = `{"delay":"1h"}`
	for _, c := range []struct{ path, want string }{
		{"t/jobs?match=*", "a1 a2 a3 a4 b1 b2"},
		{"t/jobs?match=a*", "a1 a2 a3 a4"},
		{"t/jobs?match=%3F1", "a1 b1"},
		{"t/jobs?match=a", ""},
		{"t/jobs?match=a*&state=ready", "a2 a3"},
		{"t/jobs?match=*&state=reserved", "a1"},
		{"t/jobs?match=*&state=waiting&dry_run=false", "a4 b2"},
		{"t/jobs?match=*&limit=2", "a2 a3"}, // ready, then reserved, then waiting ones
		{"t/jobs?match=*&limit=4", "a1 a2 a3 b1"},
		{"t/jobs?match=*&limit=100", "a1 a2 a3 a4 b1 b2"},
		{"none/jobs?match=*", ""},
		{"%FF/jobs?match=%FF*", "\xff1"},
	} {
		for method, body := range map[string]string{"DELETE": "", "PATCH": later} {
			t.Run(method+" "+c.path, func(t *testing.T) {
				f := start(t, web.Options{})
				f.some()
				count := fmt.Sprintf(`{"count":%d,"complete":true}`, len(strings.Fields(c.want)))
				path, _, _ := strings.Cut(c.path, "&dry_run=false")
				before := f.redis.State()
				f.do(method, "/v1/topics/"+path+"&dry_run=true", body).expect(200, count)
				f.redis.Expect(before)
				f.do(method, "/v1/topics/"+c.path, body).expect(200, count)
				for _, id := range []string{"a1", "a2", "a3", "a4", "a5", "b1", "b2", "\xff1", "\xfe1"} {
					job, err := f.Get(t.Context(), id)
					changed := errors.Is(err, client.ErrNotFound)
					if method == "PATCH" {
						changed = job.State == client.StateWaiting && time.Until(job.Due) < time.Hour+time.Minute
					}
					if changed != slices.Contains(strings.Fields(c.want), id) {
						t.Errorf("%s: %+v, %v", id, job, err)
					}
				}
				f.is("a6", client.StateDead)
			})
		}
	}
}

// Without a pattern, or with anything wrong, no job is changed.
func TestChangeManyRefused(t *testing.T) {
	f := start(t, web.Options{})
	f.some()
	before := f.redis.State()
	for query, parameter := range map[string]string{
		"": "match", "?match=": "match", "?match=" + strings.Repeat("x", maxID+1): "match", "?state=ready": "match", "?match=*&state=dead": "state", "?match=*&state=": "state",
		"?match=*&limit=0": "limit", "?match=*&limit=x": "limit", "?match=*&dry_run=1": "dry_run",
	} {
		f.do("DELETE", "/v1/topics/t/jobs"+query, "").problem(invalid, "", parameter, "want ")
		f.do("PATCH", "/v1/topics/t/jobs"+query, `{"delay":0}`).problem(invalid, "", parameter, "want ")
	}
	for body, field := range map[string]string{`{}`: "/delay", `{"delay":-1}`: "/delay", `{"delay":"101y"}`: "/delay"} {
		f.do("PATCH", "/v1/topics/t/jobs?match=*", body).problem(invalid, field, "", "")
	}
	f.do("DELETE", "/v1/topics/t/jobs?match=*&x=1", "").problem(badRequest, "", "x", "want match, state, limit, dry_run")
	f.redis.Expect(before)
}

// If Redis fails halfway, the answer tells how many jobs were changed. Those that have disappeared do not count.
func TestChangeManyHalfway(t *testing.T) {
	f := start(t, web.Options{})
	f.some()
	c := &call{
		api: &api{inspector: inspect.New(clienttest.Jobs(client.UsePool(f.redis.Pool(), 1), "")), Options: Options{MaxWork: time.Minute, Failed: f.fail}},
		w:   httptest.NewRecorder(), r: httptest.NewRequest("DELETE", "/", nil), path: map[string]string{"topic": "t"}, query: values{"match": "*", "limit": 10},
	}
	answer, err := c.change(func(_ context.Context, id string) (bool, error) {
		return id != "a1", map[string]error{"a2": client.ErrNotFound, "b1": io.ErrUnexpectedEOF}[id]
	})
	check(t, err)
	if got := string(view.Encode(answer)); !strings.HasPrefix(got, `{"count":3,"complete":false,"problem":{"type":"urn:delayer:problem:redis-unavailable",`) {
		t.Error(got)
	}
	f.expectFailures(1)
}

func TestPurge(t *testing.T) {
	f := start(t, web.Options{})
	none := `{"count":0,"complete":true}`
	f.do("DELETE", "/v1/topics/t/ready?dry_run=true", "").expect(200, none)
	f.do("DELETE", "/v1/topics/t/ready", "").expect(200, none)
	for _, id := range []string{"a", "b", "c"} {
		f.push(id, "t")
	}
	f.push("d", "u")
	f.reserve("1m")
	f.do("DELETE", "/v1/topics/t/ready?dry_run=true", "").expect(200, `{"count":2,"complete":true}`)
	f.do("DELETE", "/v1/topics/t/ready?dry_run=true&limit=1", "").expect(200, `{"count":1,"complete":true}`)
	f.do("DELETE", "/v1/topics/t/ready?dry_run=yes", "").problem(invalid, "", "dry_run", "true or false")
	f.do("DELETE", "/v1/topics/t/ready?limit=0", "").problem(invalid, "", "limit", "from 1")
	f.is("b", client.StateReady)
	f.push("e", "v")
	f.push("f", "v")
	f.do("DELETE", "/v1/topics/v/ready?limit=1", "").expect(200, `{"count":1,"complete":true}`)
	f.is("e", "")
	f.is("f", client.StateReady)
	f.do("DELETE", "/v1/topics/t/ready?dry_run=false", "").expect(200, `{"count":2,"complete":true}`)
	for id, want := range map[string]client.State{"a": client.StateReserved, "b": "", "c": "", "d": client.StateReady} {
		f.is(id, want)
	}
}

func TestForecastAndStats(t *testing.T) {
	f := start(t, web.Options{})
	for id, delay := range map[string]string{"a": "30s", "b": "30m", "c": "40m", "d": "3d"} {
		f.do("POST", "/v1/jobs", `{"id":"`+id+`","topic":"t","body":"b","delay":"`+delay+`"}`)
	}
	f.push("r", "t")
	f.push("s", "t")
	f.reserve("1m")
	f.do("GET", "/v1/forecast", "").expect(200, `{"spans":[{"from":0,"until":60,"jobs":1,"estimated":false},{"from":60,"until":3600,"jobs":2,"estimated":false},
		{"from":3600,"until":86400,"jobs":0,"estimated":false},{"from":86400,"until":604800,"jobs":1,"estimated":false}]}`)
	f.do("GET", "/v1/forecast?spans=35m,7d", "").expect(200, `{"spans":[{"from":0,"until":2100,"jobs":2,"estimated":false},{"from":2100,"until":604800,"jobs":2,"estimated":false}]}`)
	for _, spans := range []string{"", "x", "0", "1m,", "1m,1m", "2m,1m", "-1m", "101y", "1000000d", strings.Repeat("1,", 101)} {
		f.do("GET", "/v1/forecast?spans="+spans, "").problem(invalid, "", "spans", "in ascending order")
	}
	f.do("GET", "/v1/load?topic=t", "").expect(200, `{"load":3,"due":1,"ready":1,"reserved":1,"estimated":false}`)
	f.do("GET", "/v1/load?topic=t&within=35m", "").expect(200, `{"load":4,"due":2,"ready":1,"reserved":1,"estimated":false}`)
	f.do("GET", "/v1/load?topic=none&within=60", "").expect(200, `{"load":0,"due":0,"ready":0,"reserved":0,"estimated":false}`)
	f.do("GET", "/v1/load?topic=t&within=0", "").problem(invalid, "", "within", "above 0")
	f.do("GET", "/v1/load?topic=", "").problem(invalid, "", "topic", "a topic")
	f.do("GET", "/v1/partitions", "").expect(200, `{"partitions":[{"partition":0,"waiting":4,"ready":1,"reserved":1,"dead":0,"overdue":0,"mover":null}]}`)
	stats := `"time":"*","waiting":4,"ready":1,"reserved":1,"dead":0,"topics":1,"topics_counted":1,"overdue":0,"servers":[],"redis":{"version":"*","role":"master","uptime":"*","clients":"*",
		"used_memory":"*","max_memory":0,"policy":"noeviction","aof":"off","snapshot":"ok","snapshot_at":"*","unsaved":"*"},
		"throttled":0,"paused":0,"due_in_minute":1,"due_in_hour":3,"due_in_day":3,"moved_per_second":null,"acked_per_second":null,"late_p50":null,"late_p99":null`
	f.do("GET", "/v1/stats", "").expect(200, `{`+stats+`}`)
	f.do("GET", "/v1/stats?counts=false", "").expect(200, `{`+stats+`}`)
	f.do("GET", "/v1/stats?counts=true", "").expect(200, `{`+stats+`,"counts":[{"topic":"t","ready":1,"reserved":1,"dead":0,"overdue":"*","overdue_at_least":"*","waiting":4}]}`)
	f.do("GET", "/v1/stats?counts=1", "").problem(invalid, "", "counts", "true or false")
}

// Stats count paused topics and throttled jobs, and estimate the waiting jobs of each topic from a sample. The rates cover the last ten seconds
// of the servers' history.
func TestStatsOfTopics(t *testing.T) {
	f := start(t, web.Options{})
	f.do("PUT", "/v1/topics/%FF/limit", `{"rate":0.001}`)
	f.do("POST", "/v1/topics/t/pause", `{}`)
	for i := range 3 {
		f.push(fmt.Sprint(i), "\xff")
	}
	redistest.Must(f.Reserve(t.Context(), time.Minute, "\xff"))
	jobs := make([]client.Item, sampled+1)
	for i := range jobs {
		jobs[i] = client.Item{Message: client.Message{Topic: "t", Body: "b"}, Delay: time.Hour}
	}
	redistest.Must(f.PushBatch(t.Context(), jobs))
	slot := int64(f.redis.Clock()) / 10
	for n, entry := range map[int64]string{2: "400 ", 1: "430 2:20"} {
		f.redis.Do("HSET", "delayer:history", (slot-n)%360, fmt.Sprintf("%d %s", slot-n, entry))
	}
	f.do("GET", "/v1/stats?counts=true", "").expect(200, `{"time":"*","waiting":1001,"ready":2,"reserved":1,"dead":0,"topics":2,"topics_counted":2,"overdue":0,"servers":[],"redis":"*",
		"throttled":2,"paused":1,"due_in_minute":0,"due_in_hour":1001,"due_in_day":1001,"moved_per_second":2,"acked_per_second":3,"late_p50":"*","late_p99":"*","counts":[
		{"topic":"t","ready":0,"reserved":0,"dead":0,"overdue":"*","overdue_at_least":"*","paused":{"since":"*"},"waiting":"*","waiting_estimated":true},
		{"topic_base64":"/w==","ready":2,"reserved":1,"dead":0,"overdue":"*","overdue_at_least":"*","limit":{"rate":0.001},"throttled":2,"throttled_until":"*","waiting":"*","waiting_estimated":true}]}`)
}

// What the daemon's Redis user may not read is null in stats. That is no failure, as it is the operator's choice.
func TestStatsWithoutPermission(t *testing.T) {
	f := start(t, web.Options{})
	f.do("POST", "/v1/topics/t/pause", `{}`).expect(204, "")
	f.redis.Do("ACL", "SETUSER", "default", "-info", "-hrandfield", "-hscan")
	r := f.do("GET", "/v1/stats", "").expect(200, `{"time":"*","waiting":0,"ready":0,"reserved":0,"dead":0,"topics":1,"topics_counted":1,"overdue":0,"servers":null,"redis":null,
		"throttled":0,"paused":null,"due_in_minute":0,"due_in_hour":0,"due_in_day":0,"moved_per_second":null,"acked_per_second":null,"late_p50":null,"late_p99":null}`)
	if strings.Contains(r.body, "NOPERM") {
		t.Error(r.body)
	}
	f.do("GET", "/v1/servers", "").problem(refused, "", "", "lacks a permission")
	f.expectFailures(1)
}

// A partition that can't be read costs only what it has: the others count, the answer names it, and the daemon learns why.
func TestBrokenPartition(t *testing.T) {
	f := startOf(t, web.Options{}, 2)
	f.redis.Do("SET", "delayer:{1}:job_pool", "no sorted set")
	row := `"ready":0,"reserved":0,"dead":0,"overdue":0`
	for path, want := range map[string]string{
		"/v1/topics":            `{"topics":[],"broken_partitions":[1]}`,
		"/v1/forecast?spans=1m": `{"spans":[{"from":0,"until":60,"jobs":0,"estimated":false}],"broken_partitions":[1]}`,
		"/v1/partitions": `{"partitions":[{"partition":0,"waiting":0,` + row + `,"mover":null},
			{"partition":1,"waiting":null,"ready":null,"reserved":null,"dead":null,"overdue":null,"broken":true,"mover":null}]}`,
		"/v1/stats?counts=true": `{"time":"*","waiting":0,` + row + `,"topics":0,"topics_counted":0,"broken_partitions":[1],"servers":[],"redis":"*","throttled":0,"paused":0,
			"due_in_minute":0,"due_in_hour":0,"due_in_day":0,"moved_per_second":null,"acked_per_second":null,"late_p50":null,"late_p99":null,"counts":[]}`,
	} {
		f.do("GET", path, "").expect(200, want)
		if failed := f.failures(); len(failed) != 1 || !strings.Contains(failed[0].Error(), "partition 1: WRONGTYPE") {
			t.Errorf("%s: failed: %v", path, failed)
		}
	}
	f.do("PUT", "/v1/topics/t/limit", `{"concurrency":4}`).expect(200, `{"topic":"t","concurrency":4}`)
	f.expectFailures(1)
	for _, request := range [][2]string{{"GET", "/v1/topics/t/limit"}, {"GET", "/v1/load?topic=t"}, {"GET", "/v1/jobs?state=waiting"}, {"DELETE", "/v1/topics/t/jobs?match=*"}} {
		f.do(request[0], request[1], "").problem(refused, "", "", "wrong type")
		f.expectFailures(1)
	}
}

// bury makes a dead letter. Its reason is not its error, as that of a job whose attempts are used up.
func (f *fixture) bury(id, topic, reason, cause string) {
	f.t.Helper()
	f.push(id, topic)
	d, err := f.Reserve(f.t.Context(), time.Minute, topic)
	if err == nil {
		err = d.Bury(f.t.Context(), errors.New(cause))
	}
	check(f.t, err)
	f.redis.Do("HSET", "delayer:dead_letter:"+id, "reason", reason)
}

func TestDead(t *testing.T) {
	f := start(t, web.Options{})
	f.do("GET", "/v1/dead/t", "").expect(200, `{"jobs":[]}`)
	f.bury("a", "t", "bad", "shop closed")
	f.bury("b", "t", "bad", "shop closed")
	f.bury("c", "t", "worse", "shop burnt")
	f.bury("d", "u", "bad", "shop closed")
	dead := func(id, reason, cause string) string {
		return `{"id":"` + id + `","topic":"t","state":"dead","died":"*","attempts":1,"reason":"` + reason + `","error":"` + cause + `","size":1,"preview":"b"}`
	}
	f.do("GET", "/v1/dead/t", "").expect(200, `{"jobs":[`+dead("c", "worse", "shop burnt")+`,`+dead("b", "bad", "shop closed")+`,`+dead("a", "bad", "shop closed")+`]}`)
	f.do("GET", "/v1/dead/t?limit=2", "").expect(200, `{"jobs":["*","*"],"cursor":"*"}`)
	for query, want := range map[string]string{
		"reason=bad": "b a", "reason=ba": "", "error=burnt": "c", "error=shop&reason=bad": "b a", "match=%3F": "c b a", "match=a*": "a",
		"after=2001-01-01T00:00:00Z": "c b a", "before=2001-01-01T00:00:00Z": "", "after=" + time.Now().Add(time.Hour).UTC().Format(time.RFC3339): "",
	} {
		if got := f.do("GET", "/v1/dead/t?"+query, "").ids(); got != want {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
	for query, parameter := range map[string]string{
		"reason=": "reason", "reason=" + strings.Repeat("x", maxCause+1): "reason", "error=": "error", "after=": "after", "before=2027": "before", "after=2300-01-01T00:00:00Z": "after",
		"match=": "match", "limit=0": "limit", "cursor=x": "cursor",
	} {
		f.do("GET", "/v1/dead/t?"+query, "").problem(invalid, "", parameter, "want ")
	}
	f.do("GET", "/v1/dead/t/groups", "").expect(200, `{"groups":[
		{"reason":"worse","error":"shop burnt","count":1,"newest":"*","oldest":"*","example":{"id":"c"}},
		{"reason":"bad","error":"shop closed","count":2,"newest":"*","oldest":"*","example":{"id":"b"}}],"examined":3,"complete":true}`)
	f.do("GET", "/v1/dead/t/groups?limit=1", "").expect(200, `{"groups":["*"],"examined":1,"complete":false}`)
	f.do("GET", "/v1/jobs/a", "").expect(200, `{"id":"a","topic":"t","state":"dead","died":"*","ttl":null,"attempts":1,"reason":"bad","error":"shop closed","body":"b"}`)
}

// Selections of dead letters.
func TestSelection(t *testing.T) {
	f := start(t, web.Options{})
	letters := func() {
		f.bury("a", "t", "bad", "shop closed")
		f.bury("b", "t", "bad", "shop burnt")
		f.bury("c", "t", "worse", "shop burnt")
		f.bury("d", "u", "bad", "shop closed")
	}
	count := func(n int) string { return fmt.Sprintf(`{"count":%d,"complete":true}`, n) }
	for body, want := range map[string]string{
		`{"all":true}`:                      "abc",
		`{"all":true,"limit":2}`:            "ab", // the oldest
		`{"all":true,"limit":9}`:            "abc",
		`{"error":"burnt","limit":1}`:       "b",
		`{"match":"?"}`:                     "abc",
		`{"match":"a*"}`:                    "a",
		`{"match_base64":"Yg=="}`:           "b",
		`{"match":"c","reason":"bad"}`:      "",
		`{"reason":"bad"}`:                  "ab",
		`{"reason":"bad","error":"burnt"}`:  "b",
		`{"before":"2001-01-01T00:00:00Z"}`: "",
		`{"ids":["a","c","d","no"]}`:        "ac",
	} {
		letters()
		f.do("POST", "/v1/dead/t/requeue?dry_run=true", body).expect(200, count(len(want)))
		r := f.do("POST", "/v1/dead/t/drop", body)
		if !strings.HasPrefix(r.body, fmt.Sprintf(`{"count":%d,`, len(want))) {
			t.Errorf("drop of %s: %s, want %d", body, r.body, len(want))
		}
		for _, id := range []string{"a", "b", "c", "d"} {
			if job, _ := f.Get(t.Context(), id); (job.State == client.StateDead) == strings.Contains(want, id) {
				t.Errorf("drop of %s: %s is %q", body, id, job.State)
			}
			f.Remove(t.Context(), id)
		}
	}
	letters()
	for _, body := range []string{`{}`, `{"all":false}`, `{"all":true,"ids":["a"]}`, `{"all":true,"reason":"bad"}`, `{"ids":["a"],"before":"2030-01-01T00:00:00Z"}`,
		`{"limit":1}`, `{"all":true,"match":"a"}`, `{"ids":["a"],"match":"a"}`} {
		f.do("POST", "/v1/dead/t/drop", body).problem(invalid, "", "", "want one of")
	}
	f.do("POST", "/v1/dead/t/drop", `{"reason":""}`).problem(invalid, "/reason", "", "empty")
	f.do("POST", "/v1/dead/t/drop", `{"match":""}`).problem(invalid, "/match", "", "empty")
	f.do("POST", "/v1/dead/t/drop", `{"all":true,"limit":0}`).problem(invalid, "/limit", "", "from 1")
	f.do("POST", "/v1/dead/t/drop", `{"ids":["a"],"limit":1}`).problem(invalid, "/limit", "", "no effect with ids")
	f.do("POST", "/v1/dead/t/drop", `{"ids":["a","a"]}`).problem(invalid, "/ids/1", "", "twice")
	f.do("POST", "/v1/dead/t/drop", `{"ids":["a"],"ids_base64":["YQ=="]}`).problem(invalid, "/ids_base64", "", "both")
	f.is("a", client.StateDead)
}

// Dead letters that cannot be requeued are reported, by ID where IDs were given.
func TestRequeueOfWhatExists(t *testing.T) {
	f := start(t, web.Options{})
	f.bury("a", "t", "bad", "closed")
	f.bury("b", "t", "bad", "closed")
	f.bury("d", "u", "bad", "closed")
	f.push("a", "t")
	problem := func(k *kind) string {
		return fmt.Sprintf(`{"type":"urn:delayer:problem:%s","title":"%s","status":%d,"detail":"*"}`, k.name, k.title, k.status)
	}
	f.do("POST", "/v1/dead/t/requeue", `{"ids":["a","no","d"]}`).expect(200, `{"count":0,"complete":false,"results":[
		{"id":"a","problem":`+problem(exists)+`},{"id":"no","problem":`+problem(notFound)+`},{"id":"d","problem":`+problem(notFound)+`}]}`)
	f.do("POST", "/v1/dead/t/requeue", `{"all":true}`).expect(200, `{"count":1,"complete":false,"problem":`+problem(exists)+`}`)
	f.do("POST", "/v1/dead/t/requeue", `{"all":true}`).expect(200, `{"count":0,"complete":false,"problem":`+problem(exists)+`}`)
	f.is("b", client.StateReady)
	f.Remove(t.Context(), "a")
	f.do("POST", "/v1/dead/t/requeue", `{"ids":["a"]}`).expect(200, `{"count":1,"complete":true,"results":[{"id":"a"}]}`)
}

// Stats and servers list the running servers.
func TestStatsOfServers(t *testing.T) {
	f := start(t, web.Options{})
	stop := redistest.Background(t, clienttest.Server(f.redis.Pool(), server.Options{Interval: 20 * time.Millisecond}).Run)
	one := func() bool { return !strings.Contains(f.do("GET", "/v1/stats", "").body, `"servers":[]`) }
	until(t, "the server has said something", one)
	const servers = `"servers":[{"host":"*","pid":"*","version":"*","started":"*","silent":"*","stale":false,"failing":false,"moved":0,"returned":0,"dropped":0}]`
	f.do("GET", "/v1/stats", "").expect(200, `{"time":"*","waiting":0,"ready":0,"reserved":0,"dead":0,"topics":0,"topics_counted":0,"overdue":0,"redis":"*",
		"throttled":0,"paused":0,"due_in_minute":0,"due_in_hour":0,"due_in_day":0,"moved_per_second":null,"acked_per_second":null,"late_p50":null,"late_p99":null,`+servers+`}`)
	f.do("GET", "/v1/servers", "").expect(200, `{`+servers+`}`)
	f.do("GET", "/v1/partitions", "").expect(200, `{"partitions":[{"partition":0,"waiting":0,"ready":0,"reserved":0,"dead":0,"overdue":0,"mover":{"host":"*","pid":"*"}}]}`)
	stop()
	if one() {
		t.Error("a server that has stopped is there")
	}
	f.do("GET", "/v1/servers", "").expect(200, `{"servers":[]}`)
}

func TestPause(t *testing.T) {
	f := start(t, web.Options{})
	f.do("GET", "/v1/paused", "").expect(200, `{"paused":[]}`)
	f.do("POST", "/v1/topics/t/pause", `{"for":"1h","note":"the mail server is moved"}`).expect(204, "")
	f.push("a", "t")
	f.do("POST", "/v1/reserve", `{"topics":["t"]}`).expect(200, `{"deliveries":[]}`)
	paused := `"since":"*","until":"*","note":"the mail server is moved"`
	f.do("GET", "/v1/paused", "").expect(200, `{"paused":[{"topic":"t",`+paused+`}]}`)
	counts := `"topic":"t","ready":1,"reserved":0,"dead":0,"overdue":"*","overdue_at_least":"*"`
	f.do("GET", "/v1/topics/t", "").expect(200, `{`+counts+`,"paused":{`+paused+`}}`)
	f.do("GET", "/v1/topics", "").expect(200, `{"topics":[{`+counts+`,"paused":{`+paused+`}}]}`)
	f.do("GET", "/v1/topics/t/jobs?state=ready", "").expect(200, `{"jobs":["*"]}`)
	f.do("POST", "/v1/topics/t/pause", `{}`).expect(204, "")
	f.do("POST", "/v1/topics/t/throttle", `{"for":30}`).expect(204, "")
	f.do("GET", "/v1/paused", "").expect(200, `{"paused":[{"topic":"t","since":"*","throttled_since":"*","throttled_until":"*"}]}`)
	f.do("POST", "/v1/topics/t/resume", "").expect(200, `{"was_paused":true}`)
	f.do("POST", "/v1/topics/t/resume", "").expect(200, `{"was_paused":false}`)
	f.do("GET", "/v1/topics/t", "").expect(200, `{`+counts+`}`)
	f.do("POST", "/v1/reserve", `{"topics":["t"]}`).expect(200, `{"deliveries":["*"]}`)
	for body, field := range map[string]string{
		`{"for":0}`:           "/for",
		`{"for":-1}`:          "/for",
		`{"note":1}`:          "/note",
		`{"unless_paused":1}`: "/unless_paused",
		`{"note":"` + strings.Repeat("ä", 501) + `"}`: "/note",
	} {
		f.do("POST", "/v1/topics/t/pause", body).problem(invalid, field, "", "")
	}
	f.do("POST", "/v1/topics/t/throttle", `{}`).problem(invalid, "/for", "", "")
}

// With unless_paused, a pause with another end or note stays as it is. A throttling is no such pause.
func TestUnlessPaused(t *testing.T) {
	f := start(t, web.Options{})
	f.do("POST", "/v1/topics/t/throttle", `{"for":30}`).expect(204, "")
	for _, c := range []struct {
		body string
		done bool
		note string
	}{
		{`{"note":"one","unless_paused":true}`, true, "one"},
		{`{"note":"one","unless_paused":true}`, true, "one"},
		{`{"note":"two","unless_paused":true}`, false, "one"},
		{`{"note":"one","for":60,"unless_paused":true}`, false, "one"},
		{`{"note":"two","unless_paused":false}`, true, "two"},
	} {
		if r := f.do("POST", "/v1/topics/t/pause", c.body); c.done {
			r.expect(204, "")
		} else {
			r.problem(isPaused, "", "", "nothing was changed")
		}
		f.do("GET", "/v1/paused", "").expect(200, `{"paused":[{"topic":"t","since":"*","note":"`+c.note+`","throttled_since":"*","throttled_until":"*"}]}`)
	}
}

// A topic that was never used, and whose name is not UTF-8, can be paused and is listed afterwards.
func TestPauseOfNewTopic(t *testing.T) {
	f := start(t, web.Options{})
	f.do("POST", "/v1/topics/%FF/pause", `{}`).expect(204, "")
	f.do("GET", "/v1/paused", "").expect(200, `{"paused":[{"topic_base64":"/w==","since":"*"}]}`)
	f.do("GET", "/v1/topics/%FF", "").expect(200, `{"topic_base64":"/w==","ready":0,"reserved":0,"dead":0,"overdue":0,"overdue_at_least":0,"paused":{"since":"*"}}`)
}

// Without permission to read pauses the counts are still returned.
func TestTopicsWithoutPauses(t *testing.T) {
	f := start(t, web.Options{})
	f.push("a", "t")
	f.do("POST", "/v1/topics/t/pause", `{}`).expect(204, "")
	f.redis.Do("ACL", "SETUSER", "default", "-hscan")
	counts := `{"topic":"t","ready":1,"reserved":0,"dead":0,"overdue":"*","overdue_at_least":"*"}`
	f.do("GET", "/v1/topics/t", "").expect(200, counts)
	f.do("GET", "/v1/topics", "").expect(200, `{"topics":[`+counts+`]}`)
	f.do("GET", "/v1/paused", "").problem(refused, "", "", "")
	f.expectFailures(1)
}

func TestLimit(t *testing.T) {
	f := start(t, web.Options{})
	f.do("GET", "/v1/topics/t/limit", "").expect(200, `{"topic":"t"}`)
	f.do("PUT", "/v1/topics/t/limit", `{"concurrency":1,"rate":1000,"burst":3}`).expect(200, `{"topic":"t","concurrency":1,"rate":1000,"burst":3,"slots_taken":0,"throttled":0}`)
	f.push("a", "t")
	f.push("b", "t")
	f.do("POST", "/v1/reserve", `{"topics":["t"],"max":10}`).expect(200, `{"deliveries":["*"]}`)
	f.do("POST", "/v1/reserve", `{"topics":["t"]}`).expect(200, `{"deliveries":[]}`)
	counts := `"topic":"t","ready":1,"reserved":1,"dead":0,"overdue":"*","overdue_at_least":"*"`
	limit := `"limit":{"concurrency":1,"rate":1000,"burst":3},"slots_taken":1,"throttled":1`
	f.do("GET", "/v1/topics/t", "").expect(200, `{`+counts+`,`+limit+`}`)
	f.do("GET", "/v1/topics", "").expect(200, `{"topics":[{`+counts+`,`+limit+`}]}`)
	f.do("GET", "/v1/topics/t/limit", "").expect(200, `{"topic":"t","concurrency":1,"rate":1000,"burst":3,"slots_taken":1,"throttled":1}`)
	f.do("DELETE", "/v1/topics/t/limit", "").expect(204, "")
	f.do("GET", "/v1/topics/t/limit", "").expect(200, `{"topic":"t"}`)
	f.do("GET", "/v1/topics/t", "").expect(200, `{`+counts+`}`)
	f.do("POST", "/v1/reserve", `{"topics":["t"]}`).expect(200, `{"deliveries":["*"]}`)
	f.push("c", "t")
	f.push("d", "t")
	f.do("PUT", "/v1/topics/t/limit", `{"rate":0.0003}`).expect(200, `{"topic":"t","rate":0.0003,"throttled":0}`)
	f.do("POST", "/v1/reserve", `{"topics":["t"]}`).expect(200, `{"deliveries":["*"]}`)
	f.do("GET", "/v1/topics/t", "").expect(200, `{"topic":"t","ready":1,"reserved":3,"dead":0,"overdue":"*","overdue_at_least":"*",`+
		`"limit":{"rate":0.0003},"throttled":1,"throttled_until":"*"}`)
	for body, field := range map[string]string{
		`{"concurrency":0}`:            "/concurrency",
		`{"rate":0}`:                   "/rate",
		`{"concurrency":1,"burst":1}`:  "/burst",
		`{"concurrency":1,"tag":"{x"}`: "/tag",
		`{}`:                           "",

		`{"concurrency":1000001}`:                             "/concurrency",
		`{"rate":0.00001}`:                                    "/rate",
		`{"rate":1,"tag":"` + strings.Repeat("t", 251) + `"}`: "/tag",
	} {
		f.do("PUT", "/v1/topics/t/limit", body).problem(invalid, field, "", "")
	}
	f.do("GET", "/v1/topics/t/limit", "").expect(200, `{"topic":"t","rate":0.0003,"throttled":1,"throttled_until":"*"}`)
	for _, body := range []string{
		`{"concurrency":1,"rate":0.00002,"burst":1,"tag":"` + strings.Repeat("t", 250) + `"}`, `{"concurrency":1000000,"rate":1000000,"burst":1000000}`,
	} {
		if r := f.do("PUT", "/v1/topics/%FF/limit", body); r.status != 200 || !strings.HasPrefix(r.body, `{"topic_base64":"/w==",`+body[1:len(body)-1]+`,"slots_taken":0,"throttled":0`) {
			t.Errorf("%s: %d %s", body, r.status, r.body)
		}
	}
}

// A limit is set even if ready jobs in other partitions lack its tag. The answer, the limit and the topic report how many jobs can't be
// delivered.
func TestLimitWithATagThatJobsLack(t *testing.T) {
	f := startOf(t, web.Options{}, 4)
	f.do("PUT", "/v1/topics/t/limit", `{"concurrency":4,"tag":"vip"}`).expect(200, `{"topic":"t","concurrency":4,"tag":"vip","slots_taken":0,"throttled":0,"untagged":0}`)
	elsewhere := 0
	for i := range 20 {
		f.push(fmt.Sprint(i), "t")
		if store.PartitionOf(fmt.Sprint(i), 4) != store.PartitionOf("{vip}", 4) {
			elsewhere++
		}
	}
	use := fmt.Sprintf(`{"topic":"t","concurrency":5,"tag":"vip","slots_taken":0,"throttled":0,"untagged":%d}`, elsewhere)
	f.do("PUT", "/v1/topics/t/limit", `{"concurrency":5,"tag":"vip"}`).expect(200, use)
	f.do("GET", "/v1/topics/t/limit", "").expect(200, use)
	f.do("GET", "/v1/topics/t", "").expect(200, fmt.Sprintf(`{"topic":"t","ready":20,"reserved":0,"dead":0,"overdue":"*","overdue_at_least":"*",`+
		`"limit":{"concurrency":5,"tag":"vip"},"slots_taken":0,"throttled":0,"untagged":%d}`, elsewhere))
	f.do("PUT", "/v1/topics/t/limit", `{"concurrency":4}`).expect(200, `{"topic":"t","concurrency":4,"slots_taken":0,"throttled":0}`)
}
