package store

import (
	"reflect"
	"strconv"
	"testing"
	"time"

	"github.com/mix-basic/delayer/internal/redistest"
)

// Pages of dead letters are read from the newest to the oldest, and go on behind one that has
// gone meanwhile.
func TestDeadPages(t *testing.T) { onEach(t, testDeadPages) }

func testDeadPages(t *testing.T, b *backend) {
	for i := range 5 {
		id := strconv.Itoa(i)
		b.do(t, "HSET", "delayer:dead_letter:"+id, "topic", "t", "body", "b"+id, "lease", "3 1 0", "reason", "r", "error", "e", "died", 1000+i)
		b.do(t, "ZADD", "delayer:dead_letters:t", 1000+i, id)
	}
	letter := func(i int) DeadLetter {
		id := strconv.Itoa(i)
		return DeadLetter{Job: Job{ID: id, Topic: "t", Body: "b" + id}, Attempts: 3, Reason: "r", Error: "e", Died: time.UnixMilli(int64(1000 + i))}
	}
	page := func(after *DeadLetter, want ...DeadLetter) {
		t.Helper()
		got, err := b.Dead(t.Context(), "t", 2, after)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, %v, want %+v", got, err, want)
		}
	}
	four, three, gone := letter(4), letter(3), letter(2)
	page(nil, four, three)
	page(&three, letter(2), letter(1))
	b.do(t, "DEL", "delayer:dead_letter:1")
	page(&three, letter(2), DeadLetter{Job: Job{ID: "1"}, Died: time.UnixMilli(1001)})
	// One of another type is no letter, and harms no other.
	b.do(t, "SET", "delayer:dead_letter:1", "text")
	page(&three, letter(2), DeadLetter{Job: Job{ID: "1"}, Died: time.UnixMilli(1001)})
	b.do(t, "ZREM", "delayer:dead_letters:t", "2")
	page(&gone, DeadLetter{Job: Job{ID: "1"}, Died: time.UnixMilli(1001)}, letter(0))
	last := letter(0)
	page(&last)
}

// An entry of the pool without a job does not stay behind when there is a job of its ID again: it would have
// that delivered a second time.
func TestRequeueOfAnIDInThePool(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		b.seed(t, []command{
			{"HSET", "delayer:dead_letter:d", "topic", "t", "body", "body of d", "reason", "r", "died", "1000"},
			{"ZADD", "delayer:dead_letters:t", "1000", "d"}, {"ZADD", "delayer:dead_topics", "1000", "t"},
			{"ZADD", "delayer:job_pool", 60 * second, "d"},
		})
		errs, err := b.Requeue(t.Context(), []string{"d"}, time.Hour)
		check(t, err)
		expectErrors(t, errs, nil)
		b.expect(t, redistest.State{Ready: map[string][]string{"t": {"d"}}, Buckets: map[string]string{"d": "t body of d"}})
	})
}
