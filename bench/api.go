package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/web"
	"github.com/mix-basic/delayer/internal/web/delayqueue"
	"github.com/mix-basic/delayer/server"
)

// Servers of delay-queue's API that this program can be, each in its own process so that memory can be
// attributed.
const (
	apiOfDelayer = "delayer"
	apiOfNothing = "nothing"
)

// apiIdleTimeout is when idle connections to Redis are closed.
const apiIdleTimeout = 10 * time.Second

// answerAtOnce reads the request and answers without Redis.
func answerAtOnce(w http.ResponseWriter, r *http.Request) {
	io.Copy(io.Discard, r.Body)
	io.WriteString(w, `{"code":0,"message":"","data":{"id":"x"}}`)
}

// serveAPI runs such a server until it is stopped.
func serveAPI(name, addr, redisAddr string) error {
	if name == apiOfNothing {
		return http.ListenAndServe(addr, http.HandlerFunc(answerAtOnce))
	}
	o := client.PoolOptions{Addr: redisAddr, MaxActive: 20, MaxIdle: 8, IdleTimeout: apiIdleTimeout} // like a daemon's HTTP server
	go must(server.New(must(client.Connect(o)), server.Options{Logger: slog.New(slog.DiscardHandler)})).Run(context.Background())
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	return web.New(web.Options{RedisTimeout: 9 * time.Second}, delayqueue.New(must(client.OpenPool(o)), delayqueue.Options{})).Serve(context.Background(), l)
}

// startAPI starts this program as one, on our Redis.
func (r *Run) startAPI(name string) *daemon {
	addr := freeAddr()
	return startDaemon(addr, os.Args[0], "-serve", name, addr, r.Redis.addr)
}

// caller is a client of that API with one connection. It does little else, so that on a shared machine the
// server is measured.
type caller struct {
	conn net.Conn
	in   *bufio.Reader
}

// callers each have their own connection.
type callers []*caller

func dialAPIs(addr string, n int) (all callers) {
	for range n {
		conn := must(net.Dial("tcp", addr))
		all = append(all, &caller{conn: conn, in: bufio.NewReaderSize(conn, 1<<10)})
	}
	return all
}

func (cs callers) hangUp() {
	for _, c := range cs {
		c.conn.Close()
	}
}

// each calls f with 0 … n-1, divided among the callers.
func (cs callers) each(n int, f func(c *caller, i int64) error) {
	var next atomic.Int64
	crowd(len(cs), len(cs), func(who int) error {
		for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
			if err := f(cs[who], i); err != nil {
				return err
			}
		}
		return nil
	})
}

// call returns the answer, whose code has to be 0.
func (c *caller) call(path, body string) (string, error) {
	const request = "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
	if _, err := fmt.Fprintf(c.conn, request, path, len(body), body); err != nil {
		return "", err
	}
	response, err := http.ReadResponse(c.in, nil)
	if err != nil {
		return "", err
	}
	answer, err := io.ReadAll(response.Body)
	if err == nil && !strings.HasPrefix(string(answer), `{"code":0,`) {
		err = fmt.Errorf("%s answered %q", path, answer)
	}
	return string(answer), err
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
