package api

import (
	"strings"
	"testing"

	"github.com/mix-basic/delayer/internal/web"
)

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
