package main

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/inspect"
	"github.com/mix-basic/delayer/internal/store"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// The error of an unfinished migration reports everything that is left: broken data and reserved jobs.
func TestUnfinishedMigration(t *testing.T) {
	t.Parallel()
	sum := inspect.Migration{Adopted: store.Adopted{Stored: 5}, Left: 7, Reserved: 3}
	lost := errors.New("no Redis")
	for _, test := range []struct {
		sum  inspect.Migration
		err  error
		want string
	}{
		{inspect.Migration{Adopted: store.Adopted{Stored: 5}, Reserved: 3}, inspect.ErrReserved, "migrate: moved 5, and 3 are reserved: begin again when they are ready, or done"},
		{sum, context.Canceled, "migrate: stopped; moved 5, about 10 are left: begin again to go on"},
		{sum, lost, "no Redis\nmoved 5, about 10 are left: begin again to go on"},
		{inspect.Migration{Left: 7}, lost, "no Redis"},
	} {
		if err := unfinished(test.sum, test.err); err.Error() != test.want {
			t.Errorf("%+v, %v: %q, want %q", test.sum, test.err, err, test.want)
		}
	}
}

// Jobs of one partition migrate to four, though one is reserved at first. Programs with the old configuration continue in the
// meantime and are refused afterwards.
func TestMigrateCommand(t *testing.T) {
	s, r := newShellHere(t)
	s.expect(2, "", "ERROR: migrate: redis.previous_partitions is not set: want the number of partitions in the previous layout\n", "migrate")
	for i := range 9 {
		s.expect(0, fmt.Sprintln(i), "", "push", "t", []string{"0", "1h"}[i%2], "body", "--id", fmt.Sprint(i))
	}
	c := client.New(r.Pool())
	defer c.Close()
	list, err := c.ReserveBatch(t.Context(), "t", 1, time.Hour)
	redistest.Check(t, err)

	old := s.env
	s.env = append(s.env, "DELAYER_REDIS_PARTITIONS=2", "DELAYER_REDIS_PREVIOUS_PARTITIONS=1", "DELAYER_REDIS_PREFIX=x:")
	s.expect(0, "partition  previous  waiting  ready  reserved  dead  overdue  mover\n"+
		"        0  -               0      0         0     0       0s      -\n"+
		"        1  -               0      0         0     0       0s      -\n"+
		"        2  true            0      0         0     0       0s      -\n", "", "partitions")
	s.env = old
	s.env = append(s.env, "DELAYER_REDIS_PARTITIONS=4")
	s.expect(3, "", "ERROR: get \"1\": partitions is 4 here, but there are jobs of a single partition (delayer:job_pool): want previous_partitions = 1 as well, so that they are found, and then delayer migrate\n", "get", "1")
	grown := append(s.env, "DELAYER_REDIS_PREVIOUS_PARTITIONS=1")
	s.env = grown
	s.expect(6, "", "ERROR: migrate: moved 8, and 1 are reserved: begin again when they are ready, or done\n", "migrate", "--no-wait")
	s.env = old
	s.expect(0, "old\n", "", "push", "t", "1h", "body", "--id", "old")
	s.env = grown
	redistest.Check(t, list[0].Ack(t.Context()))
	s.expect(0, "moved 1\nnothing is left in the previous partitions: remove previous_partitions\n", "", "migrate")
	s.expect(0, `{"moved":0,"superseded":0}`+"\n", "", "migrate", "--json")
	s.env = append(old, "DELAYER_REDIS_PARTITIONS=4")
	for i := range 9 {
		if i != 0 { // already acknowledged
			s.expect(0, fmt.Sprintf("removed %d\n", i), "", "remove", fmt.Sprint(i))
		}
	}
	s.expect(0, "removed old\n", "", "remove", "old")
	if left := r.Strings("KEYS", "*job_*"); len(left) > 0 {
		t.Errorf("there are still %q", left)
	}
}
