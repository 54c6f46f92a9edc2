package client_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// oldClient sends what the original's clients send, command by command.
type oldClient struct {
	t    testing.TB
	conn redis.Conn
}

func (f *fixture) oldClient() *oldClient {
	f.TB.Helper()
	return &oldClient{f.TB, f.dial()}
}

func (o *oldClient) do(command string, args ...any) any {
	o.t.Helper()
	reply, err := o.conn.Do(command, args...)
	if err != nil {
		o.t.Errorf("%s %q: %v", command, args, err)
	}
	return reply
}

// multi sends the commands as a transaction.
func (o *oldClient) multi(commands ...[]any) []any {
	o.t.Helper()
	o.conn.Send("MULTI")
	for _, c := range commands {
		o.conn.Send(c[0].(string), c[1:]...)
	}
	replies, err := redis.Values(o.conn.Do("EXEC"))
	if err != nil {
		o.t.Errorf("%q: %v", commands, err)
	}
	return replies
}

// push uses whole seconds, added to the client's own clock.
func (o *oldClient) push(m client.Message, delay, readyMaxLifetime int) bool {
	o.t.Helper()
	replies := o.multi(
		[]any{"HMSET", "delayer:job_bucket:" + m.ID, "topic", m.Topic, "body", m.Body},
		[]any{"EXPIRE", "delayer:job_bucket:" + m.ID, delay + readyMaxLifetime},
		[]any{"ZADD", "delayer:job_pool", time.Now().Unix() + int64(delay), m.ID},
	)
	return slices.Equal(replies, []any{"OK", int64(1), int64(1)})
}

var errIncomplete = errors.New("job bucket has expired or is incomplete")

func (o *oldClient) pop(topic string) (client.Message, error) {
	o.t.Helper()
	id, err := redis.String(o.conn.Do("RPOP", "delayer:ready_queue:"+topic))
	if err != nil {
		return client.Message{}, err
	}
	return o.read(id)
}

func (o *oldClient) bPop(topic string, seconds int) (client.Message, error) {
	o.t.Helper()
	reply, err := redis.Strings(o.conn.Do("BRPOP", "delayer:ready_queue:"+topic, seconds))
	if err != nil {
		return client.Message{}, err
	}
	return o.read(reply[1])
}

func (o *oldClient) read(id string) (client.Message, error) {
	o.t.Helper()
	job, err := redis.StringMap(o.do("HGETALL", "delayer:job_bucket:"+id), nil)
	if err != nil || job["topic"] == "" || job["body"] == "" {
		return client.Message{}, errIncomplete
	}
	o.do("DEL", "delayer:job_bucket:"+id)
	return client.Message{ID: id, Topic: job["topic"], Body: job["body"]}, nil
}

func (o *oldClient) remove(id string) bool {
	o.t.Helper()
	replies := o.multi([]any{"ZREM", "delayer:job_pool", id}, []any{"DEL", "delayer:job_bucket:" + id})
	return slices.Equal(replies, []any{int64(1), int64(1)})
}

// oldServer runs a single pass of the original server at the given time, in Unix seconds.
func (o *oldClient) oldServer(now int64) {
	o.t.Helper()
	ids, err := redis.Strings(o.do("ZRANGEBYSCORE", "delayer:job_pool", 0, now), nil)
	if err != nil {
		o.t.Error(err)
	}
	topics := map[string][]string{}
	for _, id := range ids {
		topic, err := redis.Strings(o.do("HMGET", "delayer:job_bucket:"+id, "topic"), nil)
		if err == nil && topic[0] != "" {
			topics[topic[0]] = append(topics[topic[0]], id)
		}
	}
	for topic, ids := range topics {
		zrem, lpush := []any{"ZREM", "delayer:job_pool"}, []any{"LPUSH", "delayer:ready_queue:" + topic}
		for _, id := range ids {
			zrem, lpush = append(zrem, id), append(lpush, id)
		}
		o.multi(zrem, lpush)
	}
}

func message(id string) client.Message {
	return client.Message{ID: id, Topic: "t", Body: `{"orderID":"2018101712578956648885474","action":"close"}`}
}

// Old and new producers and consumers share a topic, with either server, and each job is delivered once.
func TestOldAndNewOnOneTopic(t *testing.T) {
	const each = 2
	jobs := redistest.Rounds(400, 1200)
	for _, serverKind := range []string{"our server", "old server"} {
		t.Run(serverKind, func(t *testing.T) {
			t.Parallel()
			f := start(t, oldLayout)
			if serverKind == "our server" {
				f.serve()
			} else {
				defer f.runOldServer()()
			}
			var popped tally
			for range each {
				old, waits := f.oldClient(), f.oldClient()
				defer f.consume(&popped, func(context.Context) (client.Message, error) { return notNil(old.pop("t")) })()
				defer f.consume(&popped, func(context.Context) (client.Message, error) { return notNil(waits.bPop("t", 1)) })()
				defer f.consume(&popped, func(ctx context.Context) (client.Message, error) { return f.Pop(ctx, "t") })()
				defer f.consume(&popped, func(ctx context.Context) (client.Message, error) { return f.BPop(ctx, 0, "t") })()
			}
			var producers sync.WaitGroup
			for part := range 2 {
				old := f.oldClient()
				producers.Go(func() {
					for n := part; n < jobs; n += 4 {
						if !old.push(message(fmt.Sprint(n)), n%2, 604800) {
							t.Errorf("old push of %d was not confirmed", n)
						}
						if _, err := f.Push(t.Context(), message(fmt.Sprint(n+2)), time.Duration(n%500)*time.Millisecond); err != nil {
							t.Error(err)
						}
					}
				})
			}
			producers.Wait()
			until(t, "all are popped", func() bool { return popped.total() == jobs })
			for n := range jobs {
				if count := popped.count(fmt.Sprint(n)); count != 1 {
					t.Errorf("job %d came %d times", n, count)
				}
			}
			f.Expect(state{})
		})
	}
}

// notNil turns an old client's nil into our error.
func notNil(m client.Message, err error) (client.Message, error) {
	if err == redis.ErrNil {
		err = client.ErrEmpty
	}
	return m, err
}

// runOldServer runs passes of the original server until the test ends or stop is called.
func (f *fixture) runOldServer() (stop func()) {
	old := f.oldClient()
	return redistest.Background(f.TB, func(ctx context.Context) error {
		for ctx.Err() == nil {
			old.oldServer(time.Now().Unix())
			time.Sleep(5 * time.Millisecond)
		}
		return nil
	})
}
