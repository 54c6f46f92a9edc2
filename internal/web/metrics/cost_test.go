package metrics

import (
	"maps"
	"testing"
)

// A scrape costs Redis a few cheap commands per topic, independent of the number of jobs.
func TestScrapeCostsRedisLittle(t *testing.T) {
	cheap := map[string]bool{ // O(1), except one page of topics and the reserved counts
		"evalsha": true, "time": true, "zcard": true, "zrange": true, "hmget": true, "llen": true, "lindex": true,
		"zscore": true, "pttl": true, "get": true, "hrandfield": true, "hlen": true, "hvals": true, "exists": true,
	}
	const topics = 300
	cost := func(jobs int) map[string]int {
		w := newWorld(t, Options{})
		conn := w.pool.Get()
		defer conn.Close()
		many(t, conn, jobs, topics, topics)
		w.scrape() // loads the scripts
		w.Do("CONFIG", "RESETSTAT")
		w.scrape()
		calls := w.AllCalls()
		delete(calls, "config|resetstat")
		delete(calls, "info")
		return calls
	}
	few, more := cost(1000), cost(10000)
	if !maps.Equal(few, more) {
		t.Errorf("with 1,000 jobs %v, with 10,000 %v", few, more)
	}
	total := 0
	for command, n := range few {
		total += n
		if !cheap[command] {
			t.Errorf("%s is called", command)
		}
	}
	if few["hvals"] != 1 || total > 10*topics {
		t.Errorf("%d commands for %d topics: %v", total, topics, few)
	}
}
