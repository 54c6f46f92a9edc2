package store

import (
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mix-basic/delayer/internal/testing/redistest"
)

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
