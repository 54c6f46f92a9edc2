package delayqueue

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/testing/redistest"
	"github.com/mix-basic/delayer/internal/web"
)

// While Redis is down or silent, requests are answered with a failure that mentions it.
func TestRedisAway(t *testing.T) {
	requests := map[string]struct{ body, chinese, english string }{
		"/push":   {`{"topic":"t","id":"a","delay":1,"ttr":60,"body":"b"}`, "添加失败", "pushing failed"},
		"/pop":    {`{"topic":"t"}`, "获取Job失败", "popping failed"},
		"/delete": {`{"id":"a"}`, "删除失败", "removing failed"},
		"/finish": {`{"id":"a"}`, "删除失败", "removing failed"},
		"/get":    {`{"id":"a"}`, "获取Job失败", "getting failed"},
	}
	for name, away := range map[string]func(*redistest.Server){"gone": (*redistest.Server).Kill, "silent": (*redistest.Server).Hang} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := start(t, setup{patience: 100 * time.Millisecond})
			until(t, "connections are open, even if Redis is slow", func() bool { return f.call("/get", `{"id":"a"}`).Code == 0 })
			away(f.redis)
			if name == "silent" {
				t.Cleanup(f.redis.Continue)
			}
			answers := map[string]<-chan reply{}
			for path, r := range requests {
				answers[path] = f.later(path, r.body)
			}
			for path, r := range requests {
				f.arrives(answers[path]).fails(t, r.chinese, r.english)
			}
		})
	}
}

// When Redis refuses a call, the answer says why, and has none of Redis's words, which go to Failed.
func TestRedisRefuses(t *testing.T) {
	failed := make(chan error, 1)
	f := start(t, setup{Options: Options{Failed: func(err error) { failed <- err }}})
	f.redis.Do("SET", "delayer:job_bucket:broken", "text")
	f.redis.Do("CONFIG", "SET", "maxmemory", "1")
	for _, c := range []struct{ path, body, chinese, english, words string }{
		{"/push", `{"topic":"t","id":"a","delay":1,"ttr":60,"body":"b"}`, "添加失败", "pushing failed: nothing was stored: Redis is out of memory", "OOM"},
		{"/get", `{"id":"broken"}`, "获取Job失败", "getting failed: a key has the wrong type", "WRONGTYPE"},
	} {
		answer := f.call(c.path, c.body)
		answer.fails(t, c.chinese, c.english)
		if err := redistest.Receive(t, failed); !strings.Contains(err.Error(), c.words) || strings.Contains(answer.Message, c.words) {
			t.Errorf("%s: told %s, failed with %v", c.path, answer.Message, err)
		}
	}
	f.call("/delete", `{"id":"a"}`).expect(t, done, "null")
	f.call("/push", `{"topic":"`+strings.Repeat("t", maxTopic+1)+`","id":"a","delay":1,"ttr":60,"body":"b"}`).fails(t, "添加失败", "topic")
	if len(failed) > 0 {
		t.Errorf("a request that is wrong is a failure: %v", <-failed)
	}
}

// When too many requests wait, a further one gets a failure that mentions it.
func TestTooManyWait(t *testing.T) {
	w := httptest.NewRecorder()
	check(t, new(api).give(nil, web.ErrCrowded).write(w, http.StatusOK))
	f := &fixture{t: t}
	f.read(w.Result()).fails(t, "等待的请求过多", "too many requests are waiting")
}

// When the server stops, waiting polls get an empty answer and no job is lost. Serve waits for that before it
// cuts connections.
func TestStop(t *testing.T) {
	f := start(t, setup{})
	var polls []<-chan reply
	for n := range 50 {
		polls = append(polls, f.later("/pop", fmt.Sprintf(`{"topic":"t,other%d"}`, n)))
	}
	for n := range polls {
		f.waits(fmt.Sprint("other", n))
	}
	f.stop()
	f.push("a", "t", "b", client.JobOptions{Lease: time.Hour})
	for _, poll := range polls {
		f.arrives(poll).expect(t, done, "null")
	}
	if !f.is("a", client.StateReady) {
		t.Error("somebody took the job")
	}
	if _, err := http.Post("http://"+f.addr+"/pop", "", nil); err == nil {
		t.Error("it still takes connections")
	}
}

// If a client disconnects during a large answer, its job is released.
func TestHangUpWithinAnAnswer(t *testing.T) {
	f := start(t, setup{})
	f.push("a", "t", strings.Repeat("x", 16<<20), client.JobOptions{Lease: time.Hour})
	conn := f.request("/pop", `{"topic":"t"}`)
	_, err := conn.Read(make([]byte, 1000))
	check(t, err)
	conn.Close()
	until(t, "the job is given back", func() bool { return f.is("a", client.StateReady) })
}

// A client that reads its answer and disconnects keeps its job.
func TestHangUpAfterTheAnswer(t *testing.T) {
	f := start(t, setup{})
	const jobs, callers = 400, 8
	for n := range jobs {
		f.push(fmt.Sprint(n), "t", "b", client.JobOptions{Lease: time.Hour})
	}
	var mu sync.Mutex
	seen := map[string]int{}
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for range jobs / callers {
				conn := f.request("/pop", `{"topic":"t"}`)
				r := f.answer(conn)
				conn.Close()
				mu.Lock()
				seen[string(r.Data)]++
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if len(seen) != jobs {
		t.Errorf("%d of %d jobs have come; the others came twice", len(seen), jobs)
	}
}

// A request of any size is executed even if its client closes the connection right after sending it.
func TestNobodyWaitsForTheAnswer(t *testing.T) {
	for size, jobs := range map[int]int{1: 200, 700 << 10: 20} {
		f := start(t, setup{})
		for n := range jobs {
			f.request("/push", fmt.Sprintf(`{"topic":"t","id":"%d","delay":3600,"ttr":60,"body":"%s"}`, n, strings.Repeat("x", size))).Close()
		}
		until(t, "all jobs are stored", func() bool { return f.redis.Do("ZCARD", "delayer:job_pool") == int64(jobs) })
		for n := range jobs {
			f.request([]string{"/delete", "/finish"}[n%2], fmt.Sprintf(`{"id":"%d"}`, n)).Close()
		}
		until(t, "all jobs are deleted", func() bool { return f.redis.Do("ZCARD", "delayer:job_pool") == int64(0) })
	}
}
