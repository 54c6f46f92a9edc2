package api

import (
	"regexp"
	"strings"
	"testing"

	"github.com/mix-basic/delayer/internal/web"
)

// The life of a schedule over HTTP.
func TestSchedules(t *testing.T) {
	f := start(t, web.Options{})
	f.do("GET", "/v1/schedules", "").expect(200, `{"schedules":[]}`)
	put := f.do("PUT", "/v1/schedules/a%20b", `{"cron":"0 7 * * *","zone":"Asia/Shanghai","topic":"t","body":"b","headers":{"tenant":"acme"},"overlap":"skip","jitter":"1m","max_attempts":3,"lease":60}`)
	next := regexp.MustCompile(`"next":"(\d{4}-\d\d-\d\dT23:00:00Z)"`).FindStringSubmatch(put.body)
	if next == nil {
		t.Fatalf("%d %s", put.status, put.body)
	}
	put.expect(200, `{"name":"a b","next":"`+next[1]+`"}`)
	f.do("GET", "/v1/schedules", "").expect(200, `{"schedules":[{"name":"a b","cron":"0 7 * * *","zone":"Asia/Shanghai","topic":"t","headers":{"tenant":"acme"},"body":"b","missed":"once","overlap":"skip","jitter":60,"max_attempts":3,"lease":60,`+
		`"expire_after":604800,"next":"`+next[1]+`","jobs":0,"late":0,"overlapped":0,"while_paused":0,"past":[]}]}`)
	run := f.do("POST", "/v1/schedules/a%20b/run", "")
	if run.status != 200 || !strings.HasPrefix(run.body, `{"id":"{a b}@now-`) || len(f.redis.Queue("t")) != 1 {
		t.Errorf("%d %s", run.status, run.body)
	}
	f.do("PATCH", "/v1/schedules/a%20b", `{"paused":true}`).expect(204, "")
	if got := f.do("GET", "/v1/schedules", ""); !strings.Contains(got.body, `"paused":"`) || !strings.Contains(got.body, `"what":"run now"`) {
		t.Error(got.body)
	}
	f.do("PATCH", "/v1/schedules/a%20b", `{"paused":false}`).expect(204, "")
	f.do("DELETE", "/v1/schedules/a%20b", "").expect(204, "")
	f.do("GET", "/v1/schedules", "").expect(200, `{"schedules":[]}`)

	f.do("PUT", "/v1/schedules/a%20b", `{"cron":"@daily","topic":"t","body":"b","jitter":0}`).expect(200, `{"name":"a b","next":"*"}`)
	f.do("DELETE", "/v1/schedules/a%20b", "").expect(204, "")

	for _, request := range [][3]string{{"DELETE", "", ""}, {"PATCH", "", `{"paused":true}`}, {"PATCH", "", `{"paused":false}`}, {"POST", "/run", ""}} {
		f.do(request[0], "/v1/schedules/no"+request[1], request[2]).problem(notFound, "", "", "there is no such schedule")
		f.do(request[0], "/v1/schedules/%7B"+request[1], request[2]).problem(invalid, "", "name", "want no braces and no control characters")
	}
	for body, wrong := range map[string][2]string{
		`{"cron":"0 25 * * *","topic":"t","body":"b"}`:             {"/cron", `"0 25 * * *", hour, "25" at character 3: want 0 to 23`},
		`{"cron":"@daily","zone":"Mars","topic":"t","body":"b"}`:   {"/zone", "want the name of a time zone, such as Europe/Berlin"},
		`{"cron":"@daily","topic":"t"}`:                            {"/body", "it is missing"},
		`{"topic":"t","body":"b"}`:                                 {"/cron", "it is missing"},
		`{"cron":"@daily","topic":"t","body":"b","missed":"x"}`:    {"/missed", "want once, skip, all"},
		`{"cron":"@daily","topic":"delayer:schedules","body":"b"}`: {"", "schedule \"s\": invalid topic: it is that of schedules"},
	} {
		f.do("PUT", "/v1/schedules/s", body).problem(invalid, wrong[0], "", wrong[1])
	}
}
