//go:build !windows

package main

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/mix-basic/delayer/client"
)

func TestLimitCommand(t *testing.T) {
	t.Parallel()
	s, db := newShell(t)
	s.expect(0, "mail: no limit\n", "", "limit", "mail")
	s.expect(0, "mail: concurrency 1, rate 0.5/s, burst 3\n", "", "limit", "mail", "--concurrency", "1", "--rate", "30/m", "--burst", "3")
	s.expect(0, "mail: concurrency 1, rate 0.5/s, burst 3; slots taken: 0, held back: 0\n", "", "limit", "mail")
	s.expect(0, `{"burst":3,"concurrency":1,"held_back":0,"rate":0.5,"slots_taken":0,"topic":"mail"}`+"\n", "", "limit", "mail", "--json")
	if limit := db.State().Limits["mail"]; limit != "1 0.5 3 " {
		t.Errorf("Redis has %q", limit)
	}
	s.expect(0, "mail: rate 10/s, burst 1, tag x\n", "", "limit", "mail", "--rate", "10/s", "--tag", "x")
	s.expect(0, "mail: no limit\n", "", "limit", "mail", "--none")
	s.expect(0, "mail: no limit\n", "", "limit", "mail")
	for _, wrong := range [][]string{{"--rate", "10"}, {"--rate", "0/s"}, {"--rate", "x/s"}, {"--none", "--concurrency", "1"}, {"--burst", "2"}, {"--rate", "1/s", "--rate", "2/s"}} {
		if r := runBinary(t, s.dir, s.env, append([]string{"limit", "mail"}, wrong...)...); r.code == 0 || r.stderr == "" {
			t.Errorf("%q: %+v", wrong, r)
		}
	}
}

// It is told how much of a limit is used, and until when the rate holds jobs back.
func TestUseOfALimit(t *testing.T) {
	t.Parallel()
	s, db := newShell(t)
	c := client.OpenPool(client.PoolOptions{Addr: db.Addr})
	defer c.Close()
	for i := range 3 {
		if _, err := c.Push(t.Context(), client.Message{Topic: "mail", Body: fmt.Sprint(i)}, 0); err != nil {
			t.Fatal(err)
		}
	}
	s.expect(0, "mail: concurrency 1\n", "", "limit", "mail", "--concurrency", "1")
	if _, err := c.Reserve(t.Context(), time.Second, time.Hour, "mail"); err != nil {
		t.Fatal(err)
	}
	s.expect(0, "mail: concurrency 1; slots taken: 1, held back: 2\n", "", "limit", "mail")
	s.expect(0, "mail: rate 0.0002777777777777778/s, burst 1\n", "", "limit", "mail", "--rate", "1/h")
	if _, err := c.Reserve(t.Context(), time.Second, time.Hour, "mail"); err != nil {
		t.Fatal(err)
	}
	stats, err := c.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	until := stats.Topics[0].HeldUntil
	if in := time.Until(until); in > time.Hour || in < time.Hour-time.Minute {
		t.Errorf("the next may begin in %v", in)
	}
	s.expect(0, fmt.Sprintf("mail: rate 0.0002777777777777778/s, burst 1; held back: 1 until %s\n", until.Format(timeFormat)), "", "limit", "mail")
	var told struct {
		Held  int       `json:"held_back"`
		Until time.Time `json:"held_until"`
	}
	if r := runBinary(t, s.dir, s.env, "limit", "mail", "--json"); json.Unmarshal([]byte(r.stdout), &told) != nil || told.Held != 1 || !told.Until.Equal(until) {
		t.Errorf("%+v, want one held back until %v", r, until)
	}
}
