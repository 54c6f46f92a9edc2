package main

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"
	"golang.org/x/sync/errgroup"
)

const (
	bucketPrefix = "delayer:job_bucket:"
	poolKey      = "delayer:job_pool"
	readyPrefix  = "delayer:ready_queue:"
	lifetime     = 7 * 24 * time.Hour
	topic        = "close_order"
	consumers    = 8
)

// body returns the body of job n: always 56 bytes.
func body(n int64) string {
	return fmt.Sprintf(`{"orderID":"%025d","action":"close"}`, n)
}

// numberOf returns the n of a body.
func numberOf(body string) (int64, error) {
	const from, to = 12, 37
	if len(body) < to {
		return 0, fmt.Errorf("no job of ours: %q", body)
	}
	return strconv.ParseInt(body[from:to], 10, 64)
}

// id returns an ID like the original's: 32 hexadecimal digits.
func id(n int64) string { return fmt.Sprintf("%032x", uint64(n)*0x9e3779b97f4a7c15) }

// seedScript creates ARGV[1] jobs from number ARGV[2] on in ARGV[3] topics: in the pool, due at ARGV[4] +
// ARGV[5] · number, or, if ARGV[4] is 'ready', in the ready queues.
var seedScript = redis.NewScript(0, `
local due = {}
for n = ARGV[2], ARGV[2] + ARGV[1] - 1 do
  local id = string.format('%032x', n)
  local bucket = 'delayer:job_bucket:' .. id
  local topic = 'close_order'
  if tonumber(ARGV[3]) > 1 then topic = topic .. (n % ARGV[3]) end
  redis.call('HSET', bucket, 'topic', topic, 'body', string.format('{"orderID":"%025.0f","action":"close"}', n))
  redis.call('EXPIRE', bucket, 604801)
  if ARGV[4] == 'ready' then
    redis.call('LPUSH', 'delayer:ready_queue:' .. topic, id)
  else
    due[#due + 1] = string.format('%.3f', ARGV[4] + ARGV[5] * n)
    due[#due + 1] = id
  end
end
for i = 1, #due, 2000 do
  redis.call('ZADD', 'delayer:job_pool', unpack(due, i, math.min(i + 1999, #due)))
end`)

// seed creates the jobs from..from+n-1, "ready", or due at that Unix time plus step seconds each.
func (r *Redis) seed(from, n, topics int, due any, step float64) {
	conn := r.Pool.Get()
	defer conn.Close()
	const chunk = 10000
	for done := 0; done < n; done += chunk {
		must(seedScript.Do(conn, min(chunk, n-done), from+done, topics, due, step))
	}
}

// unlikely is the number of the first job that seed does not create otherwise.
const unlikely = 1e9

// seedWaiting creates n waiting jobs, due from tomorrow on, a millisecond apart. Their numbers differ from
// those of seed.
func (r *Redis) seedWaiting(from, n int) {
	r.seed(unlikely+from, n, 1, float64(time.Now().Unix())+86400-unlikely/1000, 0.001)
}

// crowd runs f(0) … f(n-1) in that many goroutines.
func crowd(goroutines, n int, f func(i int) error) {
	var next atomic.Int64
	all, ctx := errgroup.WithContext(context.Background())
	for range goroutines {
		all.Go(func() error {
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= n {
					break
				}
				if err := f(i); err != nil {
					return err
				}
			}
			return nil
		})
	}
	check(all.Wait())
}

// inChunks calls f for 0 … n-1, pushChunk at a time.
func inChunks(n int, f func(from, n int)) {
	for from := 0; from < n; from += pushChunk {
		f(from, min(pushChunk, n-from))
	}
}

// arrivals records received jobs by the numbers in their bodies.
type arrivals struct {
	sync.Mutex
	numbers []int64
	at      []time.Time
	strays  int // bodies that are not ours
}

func (a *arrivals) add(body string) {
	n, err := numberOf(body)
	a.Lock()
	defer a.Unlock()
	if err != nil {
		a.strays++
		return
	}
	a.numbers, a.at = append(a.numbers, n), append(a.at, time.Now())
}

func (a *arrivals) count() int {
	a.Lock()
	defer a.Unlock()
	return len(a.at)
}

// wait waits until that many jobs have arrived.
func (a *arrivals) wait(jobs int, limit time.Duration) {
	await(limit, 5*time.Millisecond, "jobs have not come", func() int { return jobs - a.count() })
	a.Lock()
	defer a.Unlock()
	if a.strays > 0 {
		check(fmt.Errorf("%d bodies were strange", a.strays))
	}
}

// drain waits for the jobs 0 … n-1 and checks that none comes twice. It returns when the first and the last came.
func (a *arrivals) drain(jobs int, limit time.Duration) (first, last time.Time) {
	a.wait(jobs, limit)
	a.Lock()
	defer a.Unlock()
	seen := make([]bool, jobs)
	for _, n := range a.numbers {
		if n < 0 || n >= int64(jobs) || seen[n] {
			check(fmt.Errorf("job %d came twice, or is not one of %d", n, jobs))
		}
		seen[n] = true
	}
	return a.at[0], a.at[jobs-1]
}

// late returns how late each job came whose number is its due time.
func (a *arrivals) late() (late []time.Duration) {
	a.Lock()
	defer a.Unlock()
	for i, due := range a.numbers {
		late = append(late, a.at[i].Sub(time.UnixMicro(due)))
	}
	return late
}

// lateness returns p50, p99 and the maximum in ms.
func (a *arrivals) lateness() []float64 {
	late := a.late()
	return []float64{milliseconds(quantile(late, 0.5)), milliseconds(quantile(late, 0.99)), milliseconds(quantile(late, 1))}
}

// quitters counts callers that have stopped waiting.
type quitters struct{ atomic.Int64 }

func (q *quitters) check() {
	if n := q.Load(); n > 0 {
		check(fmt.Errorf("%d callers wait no more", n))
	}
}
