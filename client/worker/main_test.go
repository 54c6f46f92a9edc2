package worker_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/client/worker"
	"github.com/mix-basic/delayer/internal/devredis"
	"github.com/mix-basic/delayer/internal/testing/redistest"
	"github.com/mix-basic/delayer/server"
)

// redisURL is a Redis with a Delayer server, for the examples. The tests start their own Redis servers.
var redisURL string

func TestMain(m *testing.M) {
	redis, err := devredis.Start("127.0.0.1:0")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	redisURL = "redis://" + redis.Addr
	r := redistest.Must(client.Connect(client.PoolOptions{Addr: redis.Addr}))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() {
		ended <- redistest.Must(server.New(r, server.Options{Logger: slog.New(slog.DiscardHandler)})).Run(ctx)
	}()

	code := redistest.Run(m, 0)
	cancel()
	<-ended
	r.Close()
	redis.Close()
	if left := leftGoroutines(); code == 0 && left != "" {
		fmt.Fprintf(os.Stderr, "goroutines that the workers have left behind:\n%s\n", left)
		code = 1
	}
	os.Exit(code)
}

// leftGoroutines returns the goroutines of workers that should have ended.
func leftGoroutines() (left string) {
	for bound := time.Now().Add(hangBound); time.Now().Before(bound); time.Sleep(time.Millisecond) {
		if left = workers(); left == "" {
			return ""
		}
	}
	return left
}

// workers returns the goroutines of all workers and their handlers.
func workers() string {
	stacks := make([]byte, 4<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	var list []string
	for stack := range strings.SplitSeq(string(stacks), "\n\n") {
		if strings.Contains(stack, "client/worker.(*run)") || strings.Contains(stack, "client/worker.(*task)") {
			list = append(list, stack)
		}
	}
	return strings.Join(list, "\n\n")
}

// reporting reports whether a worker is retrying to settle a job.
func reporting() bool { return strings.Contains(workers(), "client/worker.(*task).report") }

// quiet is a logger for examples in which jobs fail.
var quiet = slog.New(slog.DiscardHandler)

// run pushes the job and runs a worker until the job is handled.
func run(mux *worker.Mux, m client.Message, handled <-chan bool) {
	runWith(mux, worker.Options{Logger: quiet}, m, handled)
}

func runWith(mux *worker.Mux, o worker.Options, m client.Message, handled <-chan bool) {
	c, err := client.Open(redisURL)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Push(context.Background(), m, 0); err != nil {
		log.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- worker.New(c, mux, o).Run(ctx) }()
	<-handled
	stop()
	if err := <-ended; err != nil {
		log.Fatal(err)
	}
}
