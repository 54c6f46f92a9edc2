package inspect

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/internal/store"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// letter creates a dead letter with the given time of death (Unix ms).
func (f *fixture) letter(topic, id, reason, cause string, died int64) {
	f.sendLetter(topic, id, reason, cause, died)
	f.flush()
}

func (f *fixture) sendLetter(topic, id, reason, cause string, died int64) {
	f.send("HSET", "delayer:dead_letter:"+id, "topic", topic, "body", "body of "+id, "reason", reason, "error", cause, "died", died)
	f.send("ZADD", "delayer:dead_letters:"+topic, died, id)
	f.send("ZADD", "delayer:dead_topics", died, topic)
}

func (f *fixture) seedLetters() {
	for i := range 250 {
		f.sendLetter("t", fmt.Sprintf("%03d", i), "all 10 attempts used up", fmt.Sprint("timeout of ", []string{"a", "b"}[i%2]), int64(1000+i))
	}
	f.letter("t", "x", "buried", "", 2000)
	f.letter("u", "y", "buried", "", 3000)
}

func TestDeadGroups(t *testing.T) {
	onEach(t, func(t *testing.T, f *fixture) {
		f.seedLetters()
		got, err := f.DeadGroups(f.ctx, "t", 1000)
		f.check(err)
		want := []DeadGroup{
			{"buried", "", false, 1, time.UnixMilli(2000), time.UnixMilli(2000), "x"},
			{"all 10 attempts used up", "timeout of b", false, 125, time.UnixMilli(1249), time.UnixMilli(1001), "249"},
			{"all 10 attempts used up", "timeout of a", false, 125, time.UnixMilli(1248), time.UnixMilli(1000), "248"},
		}
		if !slices.Equal(got.Groups, want) || got.Looked != 251 || got.More {
			t.Errorf("%+v, want %+v", got, want)
		}
		got, err = f.DeadGroups(f.ctx, "t", 150)
		f.check(err)
		if got.Looked != 150 || !got.More || len(got.Groups) != 3 {
			t.Errorf("of 150: %+v", got)
		}
		if got, err := f.DeadGroups(f.ctx, "t", 251); got.More || err != nil {
			t.Errorf("of all: %+v, %v", got, err)
		}
		if got, err := f.DeadGroups(f.ctx, "no such", 10); len(got.Groups) != 0 || got.More || err != nil {
			t.Errorf("of no such topic: %+v, %v", got, err)
		}
	})
}

var filters = []struct {
	name   string
	filter DeadFilter
	want   int
}{
	{"all", DeadFilter{Topic: "t"}, 251},
	{"another topic", DeadFilter{Topic: "u"}, 1},
	{"no such topic", DeadFilter{Topic: "v"}, 0},
	{"a reason", DeadFilter{Topic: "t", Reason: "buried"}, 1},
	{"a part of a reason", DeadFilter{Topic: "t", Reason: "bur"}, 0},
	{"an error", DeadFilter{Topic: "t", Error: "of a"}, 125},
	{"a group", DeadFilter{Topic: "t", Reason: "all 10 attempts used up", Error: "timeout of a", Whole: true}, 125},
	{"a group by other numbers", DeadFilter{Topic: "t", Reason: "all 3 attempts used up", Error: "timeout of a", Whole: true}, 125},
	{"a part of a group", DeadFilter{Topic: "t", Reason: "all 10 attempts used up", Error: "timeout of", Whole: true}, 0},
	{"a group without an error", DeadFilter{Topic: "t", Reason: "buried", Whole: true}, 1},
	{"no group without an error", DeadFilter{Topic: "t", Reason: "all 10 attempts used up", Whole: true}, 0},
	{"both", DeadFilter{Topic: "t", Reason: "buried", Error: "of a"}, 0},
	{"after", DeadFilter{Topic: "t", After: time.UnixMilli(1200)}, 51},
	{"before", DeadFilter{Topic: "t", Before: time.UnixMilli(1200)}, 200},
	{"a time", DeadFilter{Topic: "t", After: time.UnixMilli(1010), Before: time.UnixMilli(1020), Error: "of b"}, 5},
	{"all of a time", DeadFilter{Topic: "t", After: time.UnixMilli(1), Before: time.UnixMilli(1001)}, 1},
}

// Errors that differ only in numbers form one group, wherever long ones were cut. The page also shows the
// topic.
func TestDeadGroupsWithoutNumbers(t *testing.T) {
	t.Parallel()
	f, _ := onRedis(t)
	long := strings.Repeat("at line 7\n", 200)
	for i, cause := range []string{"order 17: no answer in 30 ms", "order 123456: no answer in 5 ms", "order x: no answer", "panic at 0x7f3a: 9", "panic at 0x1: 10", "user 1 " + long, "user 123456789 " + long} {
		f.letter("t", fmt.Sprint(i), fmt.Sprintf("all %d attempts used up", i), cause, int64(1000*i))
	}
	got, err := f.DeadGroups(f.ctx, "t", 1000)
	f.check(err)
	var told []string
	for _, g := range got.Groups {
		told = append(told, fmt.Sprintf("%d %v %.12s", g.Letters, g.Differ, g.Error))
	}
	if want := []string{"2 true user 1234567", "2 true panic at 0x1", "1 false order x: no ", "2 true order 123456"}; !slices.Equal(told, want) {
		t.Errorf("got %q, want %q", told, want)
	}
	lately, err := f.DeadLately(f.ctx, []string{"t", "none"}, time.UnixMilli(4000))
	f.check(err)
	if want := []store.DeadLately{{Newest: time.UnixMilli(6000), Since: 3}, {}}; !slices.Equal(lately, want) {
		t.Errorf("lately: %v, want %v", lately, want)
	}
}

// A count, a requeue and a drop with the same filter cover the same letters.
func TestDeadFilter(t *testing.T) {
	onEach(t, func(t *testing.T, f *fixture) {
		for _, c := range filters {
			t.Run(c.name, func(t *testing.T) {
				f := &fixture{f.Inspector, f.With(t), f.client, f.ctx}
				all := func() (n int) {
					for _, of := range f.counts().Topics {
						n += of.Dead
					}
					return n
				}
				seed := func() {
					f.Do("FLUSHALL")
					f.Do("ZADD", "delayer:topics", 0, "t", 0, "u")
					f.seedLetters()
				}
				seed()
				if n, err := f.CountDead(f.ctx, c.filter); n != c.want || err != nil {
					t.Errorf("count: %d, %v, want %d", n, err, c.want)
				}
				if n, err := f.RequeueDead(f.ctx, c.filter); n != c.want || err != nil {
					t.Errorf("requeued: %d, %v, want %d", n, err, c.want)
				}
				if ready := f.counts().of(c.filter.Topic).Ready; ready != c.want || all() != 252-c.want {
					t.Errorf("%d ready, %d dead after the requeue, want %d, %d", ready, all(), c.want, 252-c.want)
				}
				seed()
				if n, err := f.DropDead(f.ctx, c.filter); n != c.want || err != nil {
					t.Errorf("dropped: %d, %v, want %d", n, err, c.want)
				}
				if n, err := f.CountDead(f.ctx, c.filter); n != 0 || err != nil || all() != 252-c.want {
					t.Errorf("after the drop: %d, %v, %d in all, want 0, %d", n, err, all(), 252-c.want)
				}
			})
		}
	})
}

// Letters that were buried first are delivered first within the selection, even if many died at the same
// time.
func TestRequeueDeadInOrder(t *testing.T) {
	onEach(t, func(t *testing.T, f *fixture) {
		var want []string
		for i := range 350 {
			id := fmt.Sprintf("%03d", 999-i)
			at := int64(1000 + i)
			if i >= 100 && i < 300 {
				at = 1200 // equal times: ordered by ID
			}
			f.letter("t", id, "r", []string{"e", "other"}[i%5/4], at)
			if i >= 20 && i < 340 && i%5 != 4 {
				want = append(want, id)
			}
		}
		slices.Sort(want[64:224])
		n, err := f.RequeueDead(f.ctx, DeadFilter{Topic: "t", Error: "e", Reason: "r", Whole: true, After: time.UnixMilli(1020), Before: time.UnixMilli(1340)})
		if n != len(want) || err != nil {
			t.Errorf("%d, %v, want %d", n, err, len(want))
		}
		ids := f.ids(Query{Topic: "t", State: Ready}, nil)
		if !slices.Equal(ids, want) {
			t.Errorf("ready are %q, want %q", ids, want)
		}
	})
}

// before runs call just before Redis gets the text of the named script, which it does not have yet.
func (f *fixture) before(script string, call func()) *Inspector {
	f.Do("SCRIPT", "FLUSH")
	addr := f.Addr
	pool := &redis.Pool{Dial: func() (redis.Conn, error) {
		conn, err := redis.Dial("tcp", addr)
		return &hookedConn{conn, "-- " + script + ": ", call}, err
	}}
	f.TB.Cleanup(func() { pool.Close() })
	return open(pool, 1)
}

type hookedConn struct {
	redis.Conn
	part string
	call func()
}

func (c *hookedConn) DoContext(ctx context.Context, command string, args ...any) (any, error) {
	return redis.DoContext(c.Conn, ctx, command, args...)
}

func (c *hookedConn) ReceiveContext(ctx context.Context) (any, error) {
	return redis.ReceiveContext(c.Conn, ctx)
}

func (c *hookedConn) Send(command string, args ...any) error {
	if text, _ := args[0].(string); command == "EVAL" && strings.HasPrefix(text, c.part) {
		c.call()
	}
	return c.Conn.Send(command, args...)
}

// A letter that disappears between the read and the requeue is no error and does not count as kept.
func TestRequeueDeadThatHasGone(t *testing.T) {
	onEach(t, func(t *testing.T, f *fixture) {
		f.letter("t", "a", "r", "e", 1000)
		f.letter("t", "b", "r", "e", 1001)
		f.letter("t", "c", "r", "e", 1002)
		o := f.before("requeue", func() {
			if n, err := f.DropIDs(f.ctx, "t", "b"); n != 1 || err != nil {
				t.Error(n, err)
			}
		})
		if n, err := o.RequeueDead(f.ctx, DeadFilter{Topic: "t"}); n != 2 || err != nil {
			t.Errorf("%d, %v, want 2", n, err)
		}
		f.Expect(redistest.State{Ready: map[string][]string{"t": {"a", "c"}}, Buckets: map[string]string{"a": "t body of a", "c": "t body of c"}})
	})
}

// A letter that dies again between the read and the drop stays: it is a newer death.
func TestDropDeadThatDiesAnew(t *testing.T) {
	onEach(t, func(t *testing.T, f *fixture) {
		for i, id := range []string{"a", "b", "c"} {
			f.letter("t", id, "r", "e", int64(1000+i))
		}
		o := f.before("drop_dead", func() {
			f.check(f.client.Requeue(f.ctx, "b"))
			f.check(f.reserve("t", time.Minute).Bury(f.ctx, errors.New("again")))
		})
		if n, err := o.DropDead(f.ctx, DeadFilter{Topic: "t"}); n != 2 || err != nil {
			t.Errorf("%d, %v, want 2", n, err)
		}
		if letters := f.browse(Query{Topic: "t", State: Dead}).Jobs; len(letters) != 1 || letters[0].ID != "b" || letters[0].Reason != "again" {
			t.Errorf("left are %+v, want b, which has died again", letters)
		}
	})
}

// Jobs that die again as soon as they are ready do not keep a requeue from ending and are not requeued twice.
func TestRequeueDeadThatDieAgain(t *testing.T) {
	onEach(t, func(t *testing.T, f *fixture) {
		const letters = 250
		for i := range letters {
			f.letter("t", fmt.Sprint(i), "r", "e", int64(1000+i))
		}
		// The job dies after all others, before the second page is read.
		again := true
		o := f.before("requeue", func() {
			if again {
				again = false
				f.letter("t", "anew", "r", "e", time.Now().UnixMilli())
			}
		})
		if n, err := o.RequeueDead(f.ctx, DeadFilter{Topic: "t"}); n != letters || err != nil {
			t.Errorf("%d, %v, want %d", n, err, letters)
		}
		if left := f.browse(Query{Topic: "t", State: Dead}).Jobs; len(left) != 1 || left[0].ID != "anew" {
			t.Errorf("left are %+v, want the one that died meanwhile", left)
		}
	})
}

// A letter stays if there is a job with its ID again. The others are requeued.
func TestRequeueDeadKeeps(t *testing.T) {
	onEach(t, func(t *testing.T, f *fixture) {
		f.seedLetters()
		f.push("t", "007", time.Hour)
		f.push("t", "099", time.Hour) // the last one of a page
		f.push("t", "x", time.Hour)
		n, err := f.RequeueDead(f.ctx, DeadFilter{Topic: "t"})
		if n != 248 || !errors.Is(err, ErrKept) || !errors.Is(err, store.ErrExists) || !strings.Contains(err.Error(), `3 stay dead letters, as "007"`) {
			t.Errorf("%d, %v, want 248, and 3 that exist", n, err)
		}
		if n, err := f.CountDead(f.ctx, DeadFilter{Topic: "t"}); n != 3 || err != nil {
			t.Errorf("%d are left, %v, want 3", n, err)
		}
	})
}

// Entries without a letter, or with a letter of another topic, do not count.
func TestDeadEntriesOnly(t *testing.T) {
	onEach(t, func(t *testing.T, f *fixture) {
		f.letter("t", "gone", "r", "e", 1000)
		f.Do("DEL", "delayer:dead_letter:gone")
		f.letter("t", "moved", "r", "e", 1000)
		f.Do("HSET", "delayer:dead_letter:moved", "topic", "u")
		f.letter("t", "text", "r", "e", 1000)
		f.Do("SET", "delayer:dead_letter:text", "text")
		if n, err := f.CountDead(f.ctx, DeadFilter{Topic: "t"}); n != 0 || err != nil {
			t.Errorf("%d, %v", n, err)
		}
		if n, err := f.DropDead(f.ctx, DeadFilter{Topic: "t"}); n != 0 || err != nil {
			t.Errorf("%d, %v", n, err)
		}
	})
}

func TestDeadFails(t *testing.T) {
	t.Parallel()
	f, _ := onRedis(t)
	f.text("dead_letters:broken")
	for topic, want := range map[string]string{"": "topic is empty", "broken": "WRONGTYPE"} {
		for what, call := range map[string]func() error{
			"count":   func() error { _, err := f.CountDead(f.ctx, DeadFilter{Topic: topic}); return err },
			"requeue": func() error { _, err := f.RequeueDead(f.ctx, DeadFilter{Topic: topic}); return err },
			"drop":    func() error { _, err := f.DropDead(f.ctx, DeadFilter{Topic: topic}); return err },
			"group":   func() error { _, err := f.DeadGroups(f.ctx, topic, 10); return err },
		} {
			if err := call(); err == nil || !strings.HasPrefix(err.Error(), what) || !strings.Contains(err.Error(), want) {
				t.Errorf("%s of %q: %v, want %s", what, topic, err, want)
			}
		}
	}
}
