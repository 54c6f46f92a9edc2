//go:build !windows

package main

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/store"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

func TestLimitCommand(t *testing.T) {
	s, db := newShellHere(t)
	s.expect(0, "mail: no limit\n", "", "limit", "mail")
	s.expect(0, "mail: concurrency 1, rate 30/m, burst 3; slots taken 0, throttled 0\n", "", "limit", "mail", "--concurrency", "1", "--rate", "30/m", "--burst", "3")
	s.expect(0, "mail: concurrency 1, rate 30/m, burst 3; slots taken 0, throttled 0\n", "", "limit", "mail")
	s.expect(0, `{"topic":"mail","concurrency":1,"rate":0.5,"burst":3,"slots_taken":0,"throttled":0}`+"\n", "", "limit", "mail", "--json")
	if limit := db.State().Limits["mail"]; limit != "1 0.5 3 " {
		t.Errorf("Redis has %q", limit)
	}
	s.expect(0, "mail: rate 10/s, tag x; throttled 0\n", "", "limit", "mail", "--rate", "10/s", "--tag", "x")
	s.expect(0, "mail: no limit\n", "", "limit", "mail", "--none")
	s.expect(0, "mail: no limit\n", "", "limit", "mail")
	s.keeps("limit mail --rate 0/s", 2, "ERROR: ")
}

// The output shows how much of a limit is used, and until when the rate throttles jobs.
func TestUseOfALimit(t *testing.T) {
	s, db := newShellHere(t)
	c := redistest.Must(client.OpenPool(client.PoolOptions{Addr: db.Addr}))
	defer c.Close()
	for i := range 3 {
		_, err := c.Push(t.Context(), client.Message{Topic: "mail", Body: fmt.Sprint(i)}, 0)
		check(t, err)
	}
	s.expect(0, "mail: concurrency 1; slots taken 0, throttled 0\n", "", "limit", "mail", "--concurrency", "1")
	_, err := c.Reserve(t.Context(), time.Hour, "mail")
	check(t, err)
	s.expect(0, "mail: concurrency 1; slots taken 1, throttled 2\n", "", "limit", "mail")
	s.expect(0, "mail: rate 1/h; throttled 0\n", "", "limit", "mail", "--rate", "1/h")
	_, err = c.Reserve(t.Context(), time.Hour, "mail")
	check(t, err)
	stats, err := c.Stats(t.Context())
	check(t, err)
	until := stats.Topics[0].ThrottledUntil
	if in := time.Until(until); in > time.Hour || in < time.Hour-time.Minute {
		t.Errorf("the next may begin in %v", in)
	}
	s.expect(0, fmt.Sprintf("mail: rate 1/h; throttled 1, throttled until %s\n", until.Format(timeFormat)), "", "limit", "mail")
	var told struct {
		Held  int       `json:"throttled"`
		Until time.Time `json:"throttled_until"`
	}
	if r := s.run("limit", "mail", "--json"); json.Unmarshal([]byte(r.stdout), &told) != nil || told.Held != 1 || !told.Until.Equal(until) {
		t.Errorf("%+v, want one throttled until %v", r, until)
	}
}

// The command that limits a topic by a tag, and get, report how many of its ready jobs lack the tag, and what to do.
func TestLimitWithATagThatJobsLack(t *testing.T) {
	s, db := newShellHere(t)
	s.env = append(s.env, "DELAYER_REDIS_PARTITIONS=4")
	c := redistest.Must(client.OpenPool(client.PoolOptions{Addr: db.Addr, Partitions: 4}))
	defer c.Close()
	elsewhere := 0
	for i := range 20 {
		pushed, err := c.Push(t.Context(), client.Message{ID: fmt.Sprint(i), Topic: "mail", Body: "b"}, 0)
		check(t, err)
		if store.PartitionOf(pushed.ID, 4) != store.PartitionOf("{vip}", 4) {
			elsewhere++
		}
	}
	told := fmt.Sprintf("ready jobs without the tag vip, which nobody will get: %d; set a limit without a tag, or push them again with that tag in their IDs", elsewhere)
	use := fmt.Sprintf("slots taken 0, throttled 0; %s\n", told)
	s.expect(0, "mail: concurrency 4, tag vip; "+use, "", "limit", "mail", "--concurrency", "4", "--tag", "vip")
	s.expect(0, "mail: concurrency 4, tag vip; "+use, "", "limit", "mail")
	s.keeps("limit mail --json", 0, fmt.Sprintf(`"untagged":%d`, elsewhere))
	for i := range 20 {
		if store.PartitionOf(fmt.Sprint(i), 4) != store.PartitionOf("{vip}", 4) {
			s.keeps(fmt.Sprint("get ", i), 0, told)
			break
		}
	}
	s.expect(0, "mail: concurrency 4; slots taken 0, throttled 0\n", "", "limit", "mail", "--concurrency", "4")
	s.expect(0, "news: concurrency 4, tag vip; slots taken 0, throttled 0\n", "", "limit", "news", "--concurrency", "4", "--tag", "vip")
}
