package api

import (
	"testing"

	"github.com/mix-basic/delayer/internal/web"
)

func TestLimit(t *testing.T) {
	f := start(t, web.Options{})
	f.do("PUT", "/v1/topics/t/limit", `{"concurrency":1,"rate":1000,"burst":3}`).expect(204, "")
	f.push("a", "t")
	f.push("b", "t")
	f.do("POST", "/v1/reserve", `{"topics":["t"],"max":10}`).expect(200, `{"deliveries":["*"]}`)
	f.do("POST", "/v1/reserve", `{"topics":["t"]}`).expect(200, `{"deliveries":[]}`)
	counts := `"topic":"t","ready":1,"reserved":1,"dead":0,"overdue":"*","overdue_at_least":"*"`
	limit := `"limit":{"concurrency":1,"rate":1000,"burst":3},"held_back":1`
	f.do("GET", "/v1/topics/t", "").expect(200, `{`+counts+`,`+limit+`}`)
	f.do("GET", "/v1/topics", "").expect(200, `{"topics":[{`+counts+`,`+limit+`}]}`)
	f.do("DELETE", "/v1/topics/t/limit", "").expect(204, "")
	f.do("GET", "/v1/topics/t", "").expect(200, `{`+counts+`}`)
	f.do("POST", "/v1/reserve", `{"topics":["t"]}`).expect(200, `{"deliveries":["*"]}`)
	for body, field := range map[string]string{
		`{"concurrency":0}`:            "/concurrency",
		`{"rate":0}`:                   "/rate",
		`{"rate":"10"}`:                "/rate",
		`{"concurrency":1,"burst":1}`:  "/burst",
		`{"concurrency":1,"tag":"{x"}`: "/tag",
		`{}`:                           "",
	} {
		f.do("PUT", "/v1/topics/t/limit", body).problem(invalid, field, "", "")
	}
}
