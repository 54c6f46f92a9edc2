//go:build !windows

package main

import "testing"

func TestLimitCommand(t *testing.T) {
	t.Parallel()
	s, db := newShell(t)
	s.expect(0, "mail: no limit\n", "", "limit", "mail")
	s.expect(0, "mail: concurrency 1, rate 0.5/s, burst 3\n", "", "limit", "mail", "--concurrency", "1", "--rate", "30/m", "--burst", "3")
	s.expect(0, "mail: concurrency 1, rate 0.5/s, burst 3\n", "", "limit", "mail")
	s.expect(0, `{"burst":3,"concurrency":1,"rate":0.5,"topic":"mail"}`+"\n", "", "limit", "mail", "--json")
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
