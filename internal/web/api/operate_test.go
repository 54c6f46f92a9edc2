package api

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/store"
	"github.com/mix-basic/delayer/internal/testing/redistest"
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
	f.do("DELETE", "/v1/topics/u/ready?dry_run=true", "").problem(refused, "", "", "can't be read")
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
	f.do("DELETE", "/v1/topics/t/ready?dry_run=yes", "").problem(invalid, "", "dry_run", "true or false")
	f.is("b", client.Ready)
	f.do("DELETE", "/v1/topics/t/ready?dry_run=false", "").expect(200, `{"count":2,"complete":true}`)
	for id, want := range map[string]client.State{"a": client.Reserved, "b": "", "c": "", "d": client.Ready} {
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
	f.do("GET", "/v1/stats", "").expect(200, `{"time":"*","waiting":4,"ready":1,"reserved":1,"dead":0,"topics":1,"topics_counted":1,"overdue":0,"servers":[],"redis":{"version":"*","role":"master","uptime":"*","clients":"*",
		"used_memory":"*","max_memory":0,"policy":"noeviction","aof":"off","snapshot":"ok","snapshot_at":"*","unsaved":"*"}}`)
}

// Without permission for INFO, stats leave out only that part.
func TestStatsWithoutInfo(t *testing.T) {
	f := start(t, web.Options{})
	f.redis.Do("ACL", "SETUSER", "default", "-info", "-hrandfield")
	r := f.do("GET", "/v1/stats", "").expect(200, `{"time":"*","waiting":0,"ready":0,"reserved":0,"dead":0,"topics":0,"topics_counted":0,"overdue":0,"servers":null,"redis":null}`)
	if strings.Contains(r.body, "NOPERM") {
		t.Error(r.body)
	}
}

// bury makes a dead letter.
func (f *fixture) bury(id, topic, reason, cause string) {
	f.t.Helper()
	f.push(id, topic)
	d, err := f.Reserve(f.t.Context(), hangBound, time.Minute, topic)
	if err == nil {
		err = d.Bury(f.t.Context(), reason, client.Cause(errors.New(cause)))
	}
	check(f.t, err)
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
			if job, _ := f.Get(t.Context(), id); (job.State == client.Dead) == strings.Contains(want, id) {
				t.Errorf("drop of %s: %s is %q", body, id, job.State)
			}
			f.Remove(t.Context(), id)
		}
	}
	letters()
	for _, body := range []string{`{}`, `{"all":false}`, `{"all":true,"ids":["a"]}`, `{"all":true,"reason":"bad"}`, `{"ids":["a"],"before":"2030-01-01T00:00:00Z"}`} {
		f.do("POST", "/v1/dead/t/drop", body).problem(invalid, "", "", "want one of")
	}
	f.do("POST", "/v1/dead/t/drop", `{"reason":""}`).problem(invalid, "/reason", "", "empty")
	f.do("POST", "/v1/dead/t/drop", `{"ids":["a","a"]}`).problem(invalid, "/ids/1", "", "twice")
	f.do("POST", "/v1/dead/t/drop", `{"ids":["a"],"ids_base64":["YQ=="]}`).problem(invalid, "/ids_base64", "", "both")
	f.is("a", client.Dead)
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
	f.is("b", client.Ready)
	f.Remove(t.Context(), "a")
	f.do("POST", "/v1/dead/t/requeue", `{"ids":["a"]}`).expect(200, `{"count":1,"complete":true,"results":[{"id":"a"}]}`)
}

// stats lists the running servers.
func TestStatsOfServers(t *testing.T) {
	f := start(t, web.Options{})
	stop := redistest.Background(t, server.New(f.redis.Pool(), server.Options{Interval: 20 * time.Millisecond}).Run)
	one := func() bool { return !strings.Contains(f.do("GET", "/v1/stats", "").body, `"servers":[]`) }
	until(t, "the server has said something", one)
	f.do("GET", "/v1/stats", "").expect(200, `{"time":"*","waiting":0,"ready":0,"reserved":0,"dead":0,"topics":0,"topics_counted":0,"overdue":0,"redis":"*",
		"servers":[{"host":"*","pid":"*","version":"*","started":"*","silent":"*","stale":false,"failing":false,"moved":0,"returned":0,"dropped":0}]}`)
	f.do("GET", "/v1/partitions", "").expect(200, `{"partitions":[{"partition":0,"waiting":0,"ready":0,"reserved":0,"dead":0,"overdue":0,"mover":{"host":"*","pid":"*"}}]}`)
	stop()
	if one() {
		t.Error("a server that has stopped is there")
	}
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
	f.do("POST", "/v1/topics/t/back-off", `{"for":30}`).expect(204, "")
	f.do("GET", "/v1/paused", "").expect(200, `{"paused":[{"topic":"t","since":"*","backed_off_since":"*","backed_off_until":"*"}]}`)
	f.do("POST", "/v1/topics/t/resume", "").expect(200, `{"was_paused":true}`)
	f.do("POST", "/v1/topics/t/resume", "").expect(200, `{"was_paused":false}`)
	f.do("GET", "/v1/topics/t", "").expect(200, `{`+counts+`}`)
	f.do("POST", "/v1/reserve", `{"topics":["t"]}`).expect(200, `{"deliveries":["*"]}`)
	for body, field := range map[string]string{
		`{"for":0}`:  "/for",
		`{"for":-1}`: "/for",
		`{"note":1}`: "/note",
		`{"note":"` + strings.Repeat("ä", 501) + `"}`: "/note",
	} {
		f.do("POST", "/v1/topics/t/pause", body).problem(invalid, field, "", "")
	}
	f.do("POST", "/v1/topics/t/back-off", `{}`).problem(invalid, "/for", "", "")
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
	f.do("PUT", "/v1/topics/t/limit", `{"concurrency":1,"rate":1000,"burst":3}`).expect(204, "")
	f.push("a", "t")
	f.push("b", "t")
	f.do("POST", "/v1/reserve", `{"topics":["t"],"max":10}`).expect(200, `{"deliveries":["*"]}`)
	f.do("POST", "/v1/reserve", `{"topics":["t"]}`).expect(200, `{"deliveries":[]}`)
	counts := `"topic":"t","ready":1,"reserved":1,"dead":0,"overdue":"*","overdue_at_least":"*"`
	limit := `"limit":{"concurrency":1,"rate":1000,"burst":3},"slots_taken":1,"throttled":1`
	f.do("GET", "/v1/topics/t", "").expect(200, `{`+counts+`,`+limit+`}`)
	f.do("GET", "/v1/topics", "").expect(200, `{"topics":[{`+counts+`,`+limit+`}]}`)
	f.do("DELETE", "/v1/topics/t/limit", "").expect(204, "")
	f.do("GET", "/v1/topics/t", "").expect(200, `{`+counts+`}`)
	f.do("POST", "/v1/reserve", `{"topics":["t"]}`).expect(200, `{"deliveries":["*"]}`)
	f.push("c", "t")
	f.push("d", "t")
	f.do("PUT", "/v1/topics/t/limit", `{"rate":0.0003}`).expect(204, "")
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
	for _, body := range []string{
		`{"concurrency":1,"rate":0.00002,"burst":1,"tag":"` + strings.Repeat("t", 250) + `"}`, `{"concurrency":1000000,"rate":1000000,"burst":1000000}`,
	} {
		f.do("PUT", "/v1/topics/t/limit", body).expect(204, "")
	}
}

// A limit is set even if ready jobs in other partitions lack its tag. The answer and the topic report how
// many jobs can't be delivered.
func TestLimitWithATagThatJobsLack(t *testing.T) {
	f := startOf(t, web.Options{}, 4)
	f.do("PUT", "/v1/topics/t/limit", `{"concurrency":4,"tag":"vip"}`).expect(204, "")
	elsewhere := 0
	for i := range 20 {
		f.push(fmt.Sprint(i), "t")
		if store.PartitionOf(fmt.Sprint(i), 4) != store.PartitionOf("{vip}", 4) {
			elsewhere++
		}
	}
	f.do("PUT", "/v1/topics/t/limit", `{"concurrency":5,"tag":"vip"}`).expect(200, fmt.Sprintf(`{"untagged":%d,"message":"*"}`, elsewhere))
	f.do("GET", "/v1/topics/t", "").expect(200, fmt.Sprintf(`{"topic":"t","ready":20,"reserved":0,"dead":0,"overdue":"*","overdue_at_least":"*",`+
		`"limit":{"concurrency":5,"tag":"vip"},"slots_taken":0,"throttled":0,"untagged":%d}`, elsewhere))
	f.do("PUT", "/v1/topics/t/limit", `{"concurrency":4}`).expect(204, "")
}
