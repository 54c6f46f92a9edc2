package store

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// died adds a dead letter to the topic that died this long ago.
func (b *backend) died(t *testing.T, topic, id string, ago time.Duration) {
	t.Helper()
	at := fmt.Sprintf("%.0f", (b.base-ago.Seconds())*1000)
	b.do(t, "HSET", "delayer:dead_letter:"+id, "topic", topic, "body", "b")
	b.do(t, "ZADD", "delayer:dead_letters:"+topic, at, id)
	b.do(t, "ZADD", "delayer:dead_topics", "NX", at, topic)
}

// expireAll expires until the end, and returns the deleted IDs and the number of calls.
func (b *backend) expireAll(t *testing.T, maxAge time.Duration, most int) (ids []string, calls int) {
	t.Helper()
	var at DeadPosition
	for begins := true; begins || at != (DeadPosition{}); begins = false {
		if calls++; calls > 10000 {
			t.Fatal("it does not end")
		}
		expired, next, err := b.ExpireDead(t.Context(), maxAge, most, at)
		check(t, err)
		for _, e := range expired {
			ids = append(ids, e.IDs.Strings()...)
		}
		at = next
	}
	return ids, calls
}

// deadTopics returns the topics with dead letters, each with the registered age of its oldest letter.
func (b *backend) deadTopics(t *testing.T) []string {
	t.Helper()
	list := b.With(t).Strings("ZRANGE", "delayer:dead_topics", 0, -1, "WITHSCORES")
	var topics []string
	for i := 0; i < len(list); i += 2 {
		var ms float64
		fmt.Sscan(list[i+1], &ms)
		topics = append(topics, fmt.Sprintf("%s %v", list[i], time.Duration(b.base*1000-ms)*time.Millisecond))
	}
	return topics
}

// Letters that are too old or too many are deleted, the oldest first. A topic is registered by its oldest letter, or removed.
func TestExpireDead(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		const hour = time.Hour
		for _, c := range []struct {
			name   string
			age    time.Duration
			most   int
			ids    string
			topics []string
		}{
			{"nothing", 100 * hour, 10, "", []string{"t 5h0m0s", "u 4h0m0s", "v 2h0m0s"}},
			{"old ones", 150 * time.Minute, 0, "t1 t2 t3 u1", []string{"t 2h0m0s", "v 2h0m0s", "u 1h0m0s"}},
			{"all of a topic", 90 * time.Minute, 0, "t1 t2 t3 t4 u1 v1", []string{"t 1h0m0s", "u 1h0m0s"}},
			{"all", time.Minute, 0, "t1 t2 t3 t4 t5 u1 u2 v1", nil},
			{"too many", 100 * hour, 2, "t1 t2 t3", []string{"u 4h0m0s", "t 2h0m0s", "v 2h0m0s"}},
			{"all but one of each", 100 * hour, 1, "t1 t2 t3 t4 u1", []string{"v 2h0m0s", "t 1h0m0s", "u 1h0m0s"}},
			{"old ones, and too many", 270 * time.Minute, 3, "t1 t2", []string{"u 4h0m0s", "t 3h0m0s", "v 2h0m0s"}},
			{"old ones, of which more are too many", 150 * time.Minute, 1, "t1 t2 t3 t4 u1", []string{"v 2h0m0s", "t 1h0m0s", "u 1h0m0s"}},
		} {
			t.Run(c.name, func(t *testing.T) {
				b.seed(t)
				for i := range 5 {
					b.died(t, "t", fmt.Sprint("t", i+1), time.Duration(5-i)*hour)
				}
				b.died(t, "u", "u1", 4*hour)
				b.died(t, "u", "u2", hour)
				b.died(t, "v", "v1", 2*hour)
				was := b.state(t)
				got, _ := b.expireAll(t, c.age, c.most)
				slices.Sort(got)
				if strings.Join(got, " ") != c.ids {
					t.Errorf("deleted are %q, want %q", got, c.ids)
				}
				if topics := b.deadTopics(t); !slices.Equal(topics, c.topics) {
					t.Errorf("topics are %q, want %q", topics, c.topics)
				}
				for topic, ids := range was.Dead {
					was.Dead[topic] = slices.DeleteFunc(ids, func(id string) bool { return slices.Contains(got, id) })
				}
				maps.DeleteFunc(was.Dead, func(_ string, ids []string) bool { return len(ids) == 0 })
				maps.DeleteFunc(was.Letters, func(id, _ string) bool { return slices.Contains(got, id) })
				b.expect(t, was)
			})
		}
	})
}

// Expiry reaches all topics, however many there are, and each letter, however many have the same time.
func TestExpireDeadOfManyTopics(t *testing.T) {
	b, _ := onRedis(t)
	for _, c := range []struct {
		name               string
		topics, letters    int
		age                time.Duration
		most, gone, atMost int // calls
	}{
		{"none is too old", 1000, 2, 100 * time.Hour, 0, 0, 1},
		{"none is too many", 1000, 2, 100 * time.Hour, 2, 0, 7},
		{"one of each is too many", 1000, 2, 100 * time.Hour, 1, 1000, 7},
		{"all are too old", 1000, 2, time.Minute, 0, 2000, 9},
		{"of one topic", 1, 1000, 100 * time.Hour, 1, 999, 4},
		{"all of one topic", 1, 1000, time.Minute, 0, 1000, 5},
		{"of topics with many", 3, 700, time.Minute, 1, 2100, 9},
	} {
		t.Run(c.name, func(t *testing.T) {
			b.seed(t)
			at := int64(b.base-3600) * 1000 // all at one time, so that only the names order the topics
			b.do(t, "EVAL", `for i = 1, tonumber(ARGV[1]) do
				for k = 1, tonumber(ARGV[2]) do
					redis.call('ZADD', 'delayer:dead_letters:' .. i, ARGV[3], i .. '-' .. k)
					redis.call('HSET', 'delayer:dead_letter:' .. i .. '-' .. k, 'topic', i)
				end
				redis.call('ZADD', 'delayer:dead_topics', ARGV[3], i)
			end`, 0, c.topics, c.letters, at)
			ids, calls := b.expireAll(t, c.age, c.most)
			slices.Sort(ids)
			if len(slices.Compact(ids)) != c.gone || calls > c.atMost {
				t.Errorf("%d letters deleted by %d calls, want %d by %d at most", len(ids), calls, c.gone, c.atMost)
			}
			if left := len(b.state(t).Letters); left != c.topics*c.letters-c.gone {
				t.Errorf("%d letters are left, want %d", left, c.topics*c.letters-c.gone)
			}
		})
	}
}

// Expiry ends even if letters arrive as fast as they are deleted, in ever more topics.
func TestExpireDeadEnds(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		b.seed(t)
		for i := range 200 { // more than a page
			b.died(t, fmt.Sprint("old", i), fmt.Sprint("o", i), time.Hour)
		}
		b.died(t, "t", "a0", time.Hour)
		var at DeadPosition
		for call := 1; call == 1 || at != (DeadPosition{}); call++ {
			if call > 10 {
				t.Fatal("it does not end")
			}
			b.died(t, "t", fmt.Sprint("a", call), -time.Duration(call)*time.Hour)
			b.do(t, "EVAL", `for i = 1, 300 do
				redis.call('ZADD', 'delayer:dead_topics', ARGV[1], 'new' .. ARGV[2] .. i)
				redis.call('ZADD', 'delayer:dead_letters:new' .. ARGV[2] .. i, ARGV[1], 'n')
			end`, 0, int64(b.base)*1000+int64(call)*3600_000, call)
			var err error
			if _, at, err = b.ExpireDead(t.Context(), 100*time.Hour, 1, at); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// A topic that is broken, or that the user may not touch, is reported and does not delay the others.
func TestExpireDeadOfBrokenTopics(t *testing.T) {
	b, _ := onRedis(t, alone)
	b.SetUser("+@all ~delayer:dead_topics ~delayer:dead_letter*:a* ~delayer:dead_letters:c*")
	user := b.user()
	for _, most := range []int{0, 1} {
		b.seed(t)
		for i, topic := range []string{"a1", "a2", "b", "c", "a3"} {
			b.died(t, topic, topic+"x", time.Duration(9-i)*time.Hour)
			b.died(t, topic, topic+"y", time.Duration(9-i)*time.Hour)
		}
		b.do(t, "DEL", "delayer:dead_letters:a2")
		b.do(t, "SET", "delayer:dead_letters:a2", "text")
		age := time.Minute
		if most > 0 {
			age = 100 * time.Hour
		}
		expired, next, err := user.ExpireDead(context.Background(), age, most, DeadPosition{})
		if next != (DeadPosition{}) || !Refused(err) {
			t.Errorf("dead_max %d: next is %+v, error %v, want one of a missing permission", most, next, err)
		}
		var got []string
		for _, e := range expired {
			got = append(got, e.Topic)
		}
		if !slices.Equal(got, []string{"a1", "a3"}) {
			t.Errorf("dead_max %d: deleted are letters of %q", most, got)
		}
		for _, topic := range b.deadTopics(t) {
			if strings.HasPrefix(topic, "a2") {
				t.Errorf("dead_max %d: a2, which is text, has dead letters", most)
			}
		}
		if left := b.state(t).Dead; len(left["b"]) != 2 || len(left["c"]) != 2 {
			t.Errorf("dead_max %d: left are %q", most, left)
		}
	}
}

// Pages list dead letters from the newest to the oldest, and continue after a letter that has since been deleted.
func TestDeadPages(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		for i := range 5 {
			id := strconv.Itoa(i)
			b.do(t, "HSET", "delayer:dead_letter:"+id, "topic", "t", "body", "b"+id, "lease", "3 1 0", "reason", "r", "error", "e", "died", 1000+i)
			b.do(t, "ZADD", "delayer:dead_letters:t", 1000+i, id)
		}
		b.do(t, "HSET", "delayer:dead_letter:3", "options", "7 5000 604800000")
		letter := func(i int) Summary {
			id := strconv.Itoa(i)
			return Summary{ID: id, Topic: "t", Body: "b" + id, Size: 2, Attempts: 3, Reason: "r", Error: "e", At: time.UnixMilli(int64(1000 + i))}
		}
		page := func(after int, want ...Summary) {
			t.Helper()
			q := Browse{Topic: "t", State: "dead", Jobs: 2, Entries: 10, Whole: true}
			if after >= 0 {
				q.After = Position{strconv.Itoa(1000 + after), strconv.Itoa(after)}
			}
			got, err := b.Browse(t.Context(), q)
			if err != nil || !reflect.DeepEqual(got.Jobs, want) {
				t.Errorf("got %+v, %v, want %+v", got.Jobs, err, want)
			}
		}
		three := letter(3)
		three.MaxAttempts, three.TTR = 7, 5*time.Second
		page(-1, letter(4), three)
		page(3, letter(2), letter(1))
		b.do(t, "DEL", "delayer:dead_letter:1")
		page(3, letter(2), letter(0))
		// A key of another type is skipped and does not affect other letters.
		b.do(t, "SET", "delayer:dead_letter:1", "text")
		page(3, letter(2), letter(0))
		b.do(t, "ZREM", "delayer:dead_letters:t", "2")
		page(2, letter(0))
		page(0)
		// Long fields are returned whole.
		body, text := strings.Repeat("b", 2<<20), strings.Repeat("e", 8<<10)
		b.do(t, "HSET", "delayer:dead_letter:0", "body", body, "reason", text, "error", text)
		page(2, Summary{ID: "0", Topic: "t", Body: body, Size: len(body), Attempts: 3, Reason: text, Error: text, At: time.UnixMilli(1000)})
	})
}

// Requeue removes a pool entry without a job when its ID is used again. Otherwise the entry would deliver the job a second time.
func TestRequeueOfAnIDInThePool(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		b.seed(t, letterD, []command{{"ZADD", "delayer:job_pool", 60 * second, "d"}})
		errs, err := b.Requeue(t.Context(), []string{"d"}, time.Hour)
		check(t, err)
		expectErrors(t, errs, nil)
		b.expect(t, redistest.State{Ready: map[string][]string{"t": {"d"}}, Buckets: map[string]string{"d": "t body of d"}})
	})
}
