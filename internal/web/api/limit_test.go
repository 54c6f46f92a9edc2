package api

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mix-basic/delayer/internal/store"
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
		`{"rate":"10"}`:                "/rate",
		`{"concurrency":1,"burst":1}`:  "/burst",
		`{"concurrency":1,"tag":"{x"}`: "/tag",
		`{}`:                           "",

		`{"concurrency":1000001}`:                             "/concurrency",
		`{"rate":1000001}`:                                    "/rate",
		`{"rate":0.00001}`:                                    "/rate",
		`{"rate":1,"burst":1000001}`:                          "/burst",
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
