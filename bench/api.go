package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/web"
	"github.com/mix-basic/delayer/internal/web/delayqueue"
	"github.com/mix-basic/delayer/server"
)

// Servers of delay-queue's API that this program can be, each in its own process so that memory can be
// attributed.
const (
	apiOfDelayer    = "delayer"
	apiOfDelayQueue = "delay-queue"
	apiOfNothing    = "nothing"
	apiOfCommands   = "commands"
	apiOfScripts    = "scripts"
)

// apiIdleTimeout is when idle connections to Redis are closed.
const apiIdleTimeout = 10 * time.Second

// answerAtOnce reads the request and answers without Redis.
func answerAtOnce(w http.ResponseWriter, r *http.Request) {
	io.Copy(io.Discard, r.Body)
	io.WriteString(w, `{"code":0,"message":"","data":{"id":"x"}}`)
}

// floorOf answers delay-queue's requests with as little work in Redis as possible: no checks, no waiting for
// jobs.
type floorOf struct {
	push   func(conn redis.Conn, j delayQueueJob) error
	pop    func(conn redis.Conn, topic string) (id, body string, err error)
	finish func(conn redis.Conn, id string) error
	pool   *redis.Pool
}

// floorOfCommands sends plain commands, floorOfScripts one script per request. Both move due jobs with
// floorMove.
var (
	floorOfCommands = floorOf{
		push: func(conn redis.Conn, j delayQueueJob) error {
			conn.Send("HSET", bucketPrefix+j.ID, "topic", j.Topic, "body", j.Body)
			conn.Send("PEXPIRE", bucketPrefix+j.ID, lifetime.Milliseconds())
			conn.Send("ZADD", poolKey, score(j.due()), j.ID)
			_, err := conn.Do("")
			return err
		},
		pop: func(conn redis.Conn, topic string) (id, body string, err error) {
			if id, err = redis.String(conn.Do("RPOP", readyPrefix+topic)); err != nil {
				return "", "", err
			}
			conn.Send("ZADD", poolKey, score(time.Now().Add(time.Hour)), id)
			conn.Send("HMGET", bucketPrefix+id, "topic", "body")
			replies, err := redis.Values(conn.Do(""))
			if err != nil {
				return "", "", err
			}
			job, err := redis.Strings(replies[1], nil)
			if err != nil {
				return "", "", err
			}
			return id, job[1], nil
		},
		finish: func(conn redis.Conn, id string) error {
			_, err := conn.Do("DEL", bucketPrefix+id)
			return err
		},
	}
	floorOfScripts = floorOf{
		push: func(conn redis.Conn, j delayQueueJob) error {
			_, err := floorPush.Do(conn, poolKey, bucketPrefix+j.ID, j.Topic, j.Body, lifetime.Milliseconds(), score(j.due()), j.ID)
			return err
		},
		pop: func(conn redis.Conn, topic string) (id, body string, err error) {
			job, err := redis.Strings(floorReserveOne.Do(conn, readyPrefix+topic, poolKey, bucketPrefix, score(time.Now().Add(time.Hour))))
			if err != nil {
				return "", "", err
			}
			return job[0], job[2], nil
		},
		finish: func(conn redis.Conn, id string) error {
			_, err := emptyScript.Do(conn, id)
			return err
		},
	}
	emptyScript = redis.NewScript(1, "return 1")
)

// floorReserveOne takes one job and puts it back into the pool: KEYS ready queue, pool; ARGV bucket prefix,
// score.
var floorReserveOne = redis.NewScript(2, `
local id = redis.call('RPOP', KEYS[1])
if not id then return nil end
redis.call('ZADD', KEYS[2], ARGV[2], id)
local job = redis.call('HMGET', ARGV[1] .. id, 'topic', 'body')
return {id, job[1], job[2]}`)

func (j delayQueueJob) due() time.Time { return time.Now().Add(time.Duration(j.Delay) * time.Second) }

// on starts the floor on a Redis and moves its due jobs.
func (f floorOf) on(redisAddr string) http.Handler {
	f.pool = newPool(redisAddr, 100)
	go func() {
		conn := f.pool.Get()
		for range time.Tick(20 * time.Millisecond) {
			floorMoveAll(conn, 1000)
		}
	}()
	return f
}

func (f floorOf) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	data, err := f.answer(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	text, _ := json.Marshal(struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
		Data    any    `json:"data"`
	}{Data: data})
	w.Write(text)
}

func (f floorOf) answer(r *http.Request) (data any, err error) {
	var asked delayQueueJob
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(body, &asked); err != nil {
		return nil, err
	}
	conn := f.pool.Get()
	defer conn.Close()
	switch r.URL.Path {
	case "/push":
		return nil, f.push(conn, asked)
	case "/pop":
		id, body, err := f.pop(conn, asked.Topic)
		return map[string]string{"id": id, "body": body}, err
	default:
		return nil, f.finish(conn, asked.ID)
	}
}

// serveAPI runs such a server until it is stopped.
func serveAPI(name, addr, redisAddr string) error {
	switch name {
	case apiOfDelayQueue:
		return http.ListenAndServe(addr, newDelayQueue(redisAddr))
	case apiOfNothing:
		return http.ListenAndServe(addr, http.HandlerFunc(answerAtOnce))
	case apiOfCommands:
		return http.ListenAndServe(addr, floorOfCommands.on(redisAddr))
	case apiOfScripts:
		return http.ListenAndServe(addr, floorOfScripts.on(redisAddr))
	}
	o := client.PoolOptions{Addr: redisAddr, MaxActive: 20, MaxIdle: 8, IdleTimeout: apiIdleTimeout} // like a daemon's HTTP server
	go server.New(client.Connect(o), server.Options{}).Run(context.Background())
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	return web.New(web.Options{RedisTimeout: 9 * time.Second}, delayqueue.New(client.OpenPool(o), delayqueue.Options{})).Serve(context.Background(), l)
}

// startAPI starts one on our Redis: this program or, given another path, that of another revision.
func (r *Run) startAPI(program, name string) (*daemon, error) {
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	return startDaemon(addr, program, "-serve", name, addr, r.Redis.addr)
}

// caller is a client of that API with one connection. It does little else, so that on a shared machine the
// server is measured.
type caller struct {
	conn net.Conn
	in   *bufio.Reader
	out  []byte
}

func dialAPI(addr string) (*caller, error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	return &caller{conn: conn, in: bufio.NewReaderSize(conn, 1<<10)}, nil
}

// callers each have their own connection.
type callers []*caller

func dialAPIs(addr string, n int) (callers, error) {
	var all callers
	for range n {
		c, err := dialAPI(addr)
		if err != nil {
			all.hangUp()
			return nil, err
		}
		all = append(all, c)
	}
	return all, nil
}

func (cs callers) hangUp() {
	for _, c := range cs {
		c.conn.Close()
	}
}

// each calls f with 0 … n-1, divided among the callers.
func (cs callers) each(n int, f func(c *caller, i int64) error) error {
	var next atomic.Int64
	return crowd(len(cs), len(cs), func(who int) error {
		for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
			if err := f(cs[who], i); err != nil {
				return err
			}
		}
		return nil
	})
}

var contentLength = []byte("Content-Length: ")

// call returns the answer, whose code has to be 0.
func (c *caller) call(path, body string) (string, error) {
	c.out = fmt.Appendf(c.out[:0], "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", path, len(body), body)
	if _, err := c.conn.Write(c.out); err != nil {
		return "", err
	}
	length := 0
	for {
		line, err := c.in.ReadSlice('\n')
		if err != nil {
			return "", err
		}
		if len(line) <= 2 {
			break
		}
		if value, found := bytes.CutPrefix(line, contentLength); found {
			if length, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil {
				return "", err
			}
		}
	}
	answer := make([]byte, length)
	if _, err := io.ReadFull(c.in, answer); err != nil {
		return "", err
	}
	if !strings.HasPrefix(string(answer), `{"code":0,`) {
		return "", fmt.Errorf("%s answered %q", path, answer)
	}
	return string(answer), nil
}

func (c *caller) push(n int64, delay time.Duration) error {
	_, err := c.call("/push", `{"topic":"`+topic+`","id":"`+id(n)+`","delay":`+strconv.Itoa(int(delay/time.Second))+`,"ttr":3600,"body":`+strconv.Quote(body(n))+`}`)
	return err
}

// pop takes a job, waiting if necessary, and returns its ID.
func (c *caller) pop() (string, error) {
	answer, err := c.call("/pop", `{"topic":"`+topic+`"}`)
	if err != nil {
		return "", err
	}
	_, rest, found := strings.Cut(answer, `"id":"`)
	if !found {
		return "", fmt.Errorf("no job: %s", answer)
	}
	id, _, _ := strings.Cut(rest, `"`)
	return id, nil
}

func (c *caller) finish(id string) error {
	_, err := c.call("/finish", `{"id":"`+id+`"}`)
	return err
}

func (c *caller) popAndFinish() error {
	id, err := c.pop()
	if err != nil {
		return err
	}
	return c.finish(id)
}
