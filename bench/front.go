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

// The servers that this program can be, of delay-queue's API: a process each, so that their
// memory can be told from ours.
const (
	frontOfDelayer    = "delayer"
	frontOfDelayQueue = "delay-queue"
	frontOfNothing    = "nothing"
	frontOfDelete     = "delete"
	frontOfScript     = "script"
)

// frontIdleTimeout is when connections to Redis are closed that are used no more.
const frontIdleTimeout = 10 * time.Second

// answerAtOnce reads what is asked, and answers without asking Redis.
func answerAtOnce(w http.ResponseWriter, r *http.Request) {
	io.Copy(io.Discard, r.Body)
	io.WriteString(w, `{"code":0,"message":"","data":{"id":"x"}}`)
}

// answerBehind is answerAtOnce, but asks Redis first.
func answerBehind(redisAddr string, ask func(conn redis.Conn, id string) error) http.Handler {
	pool := newPool(redisAddr, 100)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var asked delayQueueJob
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = json.Unmarshal(body, &asked)
		}
		if err == nil {
			conn := pool.Get()
			err = ask(conn, asked.ID)
			conn.Close()
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		io.WriteString(w, `{"code":0,"message":"","data":null}`)
	})
}

var emptyScript = redis.NewScript(1, "return 1")

func askDelete(conn redis.Conn, id string) error {
	_, err := conn.Do("DEL", id)
	return err
}

func askScript(conn redis.Conn, id string) error {
	_, err := emptyScript.Do(conn, id)
	return err
}

// serveFront is such a server, until it is ended.
func serveFront(name, addr, redisAddr string) error {
	switch name {
	case frontOfDelayQueue:
		return http.ListenAndServe(addr, newDelayQueue(redisAddr))
	case frontOfNothing:
		return http.ListenAndServe(addr, http.HandlerFunc(answerAtOnce))
	case frontOfDelete:
		return http.ListenAndServe(addr, answerBehind(redisAddr, askDelete))
	case frontOfScript:
		return http.ListenAndServe(addr, answerBehind(redisAddr, askScript))
	}
	o := client.PoolOptions{Addr: redisAddr, MaxActive: 20, MaxIdle: 8, IdleTimeout: frontIdleTimeout} // as a daemon's front
	go server.New(client.NewPool(o), server.Options{}).Run(context.Background())
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	return web.New(web.Options{RedisTimeout: 9 * time.Second}, delayqueue.New(client.OpenPool(o), delayqueue.Options{})).Serve(context.Background(), l)
}

// startFront starts one, on our Redis. It is this program or, with another path, that of another revision.
func (r *Run) startFront(program, name string) (*daemon, error) {
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	return startDaemon(addr, program, "-serve", name, addr, r.Redis.addr)
}

// caller is a client of that API, on one connection. It does little beside, so that on a machine
// which it shares with the server it is the server that is measured.
type caller struct {
	conn net.Conn
	in   *bufio.Reader
	out  []byte
}

func dialFront(addr string) (*caller, error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	return &caller{conn: conn, in: bufio.NewReaderSize(conn, 1<<10)}, nil
}

// callers are some, each of which has its own connection.
type callers []*caller

func dialFronts(addr string, n int) (callers, error) {
	var all callers
	for range n {
		c, err := dialFront(addr)
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

// each has the callers do f with 0 … n-1 between them.
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

// pop takes a job, waiting for it if need be, and returns its ID.
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
