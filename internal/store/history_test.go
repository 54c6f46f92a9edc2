package store

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// pasts returns the last hour including the current slot: the test sets the time ahead.
func (b *backend) pasts(t *testing.T) []Past {
	t.Helper()
	texts, _ := b.do(t, "HVALS", "delayer:history").([]any)
	for _, text := range texts {
		slot, _, _ := strings.Cut(string(text.([]byte)), " ")
		var n int
		fmt.Sscan(slot, &n)
		b.do(t, "HDEL", "delayer:history", n%historySlots)
		b.do(t, "HSET", "delayer:history", (n-1)%historySlots, strings.Replace(string(text.([]byte)), slot, fmt.Sprint(n-1), 1))
	}
	all, err := b.History(t.Context())
	check(t, err)
	return all
}

// state returns a server's state after it has moved this many jobs of each lateness.
func moved(id string, started time.Time, counts ...int64) ServerState {
	s := ServerState{ID: id, Started: started, Interval: time.Second}
	copy(s.Lateness.Counts[:], counts)
	return s
}

// The work of servers since their last report is added once, however often it is reported. A server that is not new but has no entry adds
// nothing, as the start of its work is unknown.
func TestHistory(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		b.seed(t)
		if got := b.pasts(t); len(got) != 0 {
			t.Errorf("before all there is %v", got)
		}
		say := func(s ServerState) time.Time {
			t.Helper()
			started, err := b.heartbeat(s, false)
			check(t, err)
			return started
		}
		// All reports must fall into one slot; otherwise the test starts again.
		for {
			b.seed(t)
			begin := int64(b.clock(t)) / 10
			b.do(t, "SET", "delayer:acked", 7)
			one := say(moved("one", time.Time{}, 5, 2))
			two := say(moved("two", time.Time{}))
			say(moved("one", one, 5, 3, 0, 1))
			say(moved("one", one, 5, 3, 0, 1)) // the answer was lost
			say(moved("two", two, 1000))
			say(moved("old", one, 1000, 1000))
			b.do(t, "SET", "delayer:acked", 8)
			say(moved("old", one, 1001, 1000))
			under, err := b.History(t.Context())
			if int64(b.clock(t))/10 == begin && (err != nil || len(under) != 0) {
				t.Errorf("of what is under way there is %v, %v", under, err)
			}
			if int64(b.clock(t))/10 == begin {
				break
			}
		}
		if ttl := b.do(t, "PTTL", "delayer:history").(int64); ttl < 3500000 || ttl > 3600000 {
			t.Errorf("it expires in %d ms", ttl)
		}
		if texts := fmt.Sprintf("%s", b.do(t, "HVALS", "delayer:history")); !strings.HasSuffix(texts, " 8 1:1006,2:3,4:1]") {
			t.Errorf("the entry is %s", texts)
		}
		got := b.pasts(t)
		want := Past{Acked: 8}
		copy(want.Lateness.Counts[:], []int64{1006, 3, 0, 1})
		if len(got) != 1 || got[0].Until.Sub(got[0].From) != historyStep || time.Since(got[0].From) > time.Minute {
			t.Fatalf("got %+v", got)
		}
		got[0].From, got[0].Until = time.Time{}, time.Time{}
		if !reflect.DeepEqual(got[0], want) {
			t.Errorf("got  %+v\nwant %+v", got[0], want)
		}
		b.expect(t, redistest.State{Other: map[string]string{}})
	})
}

// Slots are overwritten in order, and entries that are too old or in the future are skipped.
func TestHistoryIsBounded(t *testing.T) {
	t.Parallel()
	b, _ := onRedis(t, alone)
	b.seed(t)
	now := int64(b.clock(t)) / 10
	for n := range int64(historySlots) {
		b.do(t, "HSET", "delayer:history", (now-n)%historySlots, fmt.Sprintf("%d 5 1:%d,17:1", now-n-1, n))
	}
	all, err := b.History(t.Context())
	if err != nil || len(all) < historySlots-1 { // the oldest may have become too old
		t.Fatalf("%d, %v", len(all), err)
	}
	for i := range all[1:] {
		if step := all[i+1].From.Sub(all[i].From); step != historyStep || all[i].Lateness.Counts[16] != 1 {
			t.Errorf("after %+v comes %+v", all[i], all[i+1])
		}
	}
	check(t, errOf(b.heartbeat(moved("one", time.Time{}, 1), false)))
	if n := b.do(t, "HLEN", "delayer:history").(int64); n != historySlots {
		t.Errorf("there are %d fields", n)
	}
	if bytes := b.do(t, "MEMORY", "USAGE", "delayer:history", "SAMPLES", 0).(int64); bytes > 100<<10 {
		t.Errorf("it takes %d bytes", bytes)
	}
	b.seed(t)
	for n, text := range []string{"", "x", "1 1 1:1", "-1 0 ", fmt.Sprint(now+1000, " 0 "), fmt.Sprint(now-historySlots-2, " 0 "), fmt.Sprint(now-1, " 0 1"), fmt.Sprint(now-1, " 0 0:1"),
		fmt.Sprint(now-1, " 0 18:1"), fmt.Sprint(now-1, " 0 1:-1"), fmt.Sprint(now-1, " 0 1:1e9"), fmt.Sprint(now-1, "  "), "99999999999999999999 0 ", strings.Repeat("1 ", 1000)} {
		b.do(t, "HSET", "delayer:history", n, text)
	}
	if all, err := b.History(t.Context()); err != nil || len(all) > 1 {
		t.Errorf("%+v, %v", all, err) // the entry without numbers belongs to now-1 and counts nothing
	}
	b.do(t, "EVAL", "for i = 1, 2000 do redis.call('HSET', KEYS[1], i, ARGV[1]) end", 1, "delayer:history", fmt.Sprint(now-1, " 0 "))
	if all, err := b.History(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("of a hash that is too large there is %+v, %v", all, err)
	}
}

// If the last hour can't be written, or the acknowledged jobs can't be read, the heartbeat still succeeds.
func TestHistoryWithoutPermission(t *testing.T) {
	t.Parallel()
	b, user := onRedisAs(t)
	beat := func(what string) int64 {
		t.Helper()
		if _, err := user.heartbeat(moved("this", time.Time{}, 1), false); err != nil || len(b.listed(t)) != 1 {
			t.Errorf("%s: %v, %v", what, b.listed(t), err)
		}
		n, _ := b.do(t, "EXISTS", "delayer:history").(int64)
		return n
	}
	for _, c := range []struct {
		rights   []any
		recorded int64
	}{
		{[]any{"-get"}, 1}, {[]any{"-pexpire"}, 1}, {[]any{"-hget"}, 0}, {[]any{"resetkeys", "~delayer:servers"}, 0}, {[]any{"resetkeys", "~delayer:servers", "~delayer:history"}, 1},
	} {
		b.do(t, "ACL", "SETUSER", "u", "allkeys", "+@all")
		b.seed(t)
		b.do(t, "ACL", append([]any{"SETUSER", "u"}, c.rights...)...)
		if got := beat(fmt.Sprint(c.rights...)); got != c.recorded {
			t.Errorf("with %q there are %d", c.rights, got)
		}
	}
	b.do(t, "ACL", "SETUSER", "u", "allkeys", "+@all")
	b.seed(t, text("history"))
	beat("a key of another type")
	for command := range strings.FieldsSeq("evalsha time hlen hvals") {
		b.seed(t)
		b.do(t, "ACL", "SETUSER", "u", "+@all", "-"+command)
		if _, err := user.History(t.Context()); !Refused(err) {
			t.Errorf("without %s: %v", command, err)
		}
	}
}

// Acknowledged jobs of other partitions count, too. If their number is unknown, nothing is counted.
func TestHistoryOfSeveralPartitions(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		for _, c := range []struct {
			own       any
			elsewhere int64
			want      string
		}{{nil, 0, "0"}, {nil, 5, "5"}, {8, 0, "8"}, {8, 5, "13"}, {"4503599627370496", 1, "4503599627370497"}, {8, -1, "-"}, {"text", 5, "-"}} {
			b.seed(t)
			if c.own != nil {
				b.do(t, "SET", "delayer:acked", c.own)
			}
			made(t, b.Heartbeat(ServerState{ID: "a", Interval: time.Second}, 1, c.elsewhere))
			if entry := fmt.Sprintf("%s", b.do(t, "HVALS", "delayer:history")); strings.Fields(entry)[1] != c.want {
				t.Errorf("of %v here and %d elsewhere there is %s, want %s", c.own, c.elsewhere, entry, c.want)
			}
		}
	})
}

// Each Ack counts the jobs it completes. If it can't count, it completes them all the same.
func TestAcked(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		acked := func(want int64) {
			t.Helper()
			if n, err := b.Acked().Do(t.Context()); n != want || err != nil {
				t.Errorf("acked %d, %v, want %d", n, err, want)
			}
		}
		ack := func(topics ...string) (errs []error) {
			t.Helper()
			var held []LeaseRef
			for _, topic := range topics {
				h, _ := b.hold(t, topic, time.Minute)
				h.Topic = topic
				held = append(held, h)
			}
			held = append(held, LeaseRef{"t", "gone", 1})
			errs = made(t, b.Ack(held))
			for n := range topics {
				if errs[n] != nil {
					t.Errorf("ack of %s: %v", topics[n], errs[n])
				}
			}
			return errs
		}
		b.seed(t, ready("a", "t"), ready("b", "u"), ready("c", "v"), ready("d", "w"), ready("e", "x"))
		acked(0)
		ack()
		acked(0)
		ack("t")
		acked(1)
		ack("u", "v")
		acked(3)
		b.do(t, "SET", "delayer:acked", "no number")
		ack("w")
		b.do(t, "DEL", "delayer:acked")
		b.do(t, "RPUSH", "delayer:acked", "no string")
		ack("x")
		b.expect(t, redistest.State{Other: map[string]string{"delayer:acked": "list"}})
	})
}

// A user who may not count can still acknowledge.
func TestAckedWithoutPermission(t *testing.T) {
	t.Parallel()
	b, user := onRedisAs(t)
	for _, rights := range [][]any{{"-incrby"}, {"resetkeys", "~delayer:job_*", "~delayer:reserved"}} {
		b.do(t, "ACL", "SETUSER", "u", "allkeys", "+@all")
		b.seed(t, ready("a", "t"))
		held, _ := b.hold(t, "t", time.Minute)
		held.Topic = "t"
		b.do(t, "ACL", append([]any{"SETUSER", "u"}, rights...)...)
		if err := user.settleAs(t, "ack", held); err != nil {
			t.Errorf("with %q: %v", rights, err)
		}
		b.expect(t, redistest.State{})
		if _, err := redis.Int(b.Conn().Do("GET", "delayer:acked")); err != redis.ErrNil {
			t.Errorf("with %q it was counted: %v", rights, err)
		}
	}
}
