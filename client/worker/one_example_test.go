package worker_test

import (
	"context"
	"fmt"
	"log"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/client/worker"
	"github.com/mix-basic/delayer/internal/devredis"
)

// A program is started for each job.
func ExampleWorker_RunOne() {
	redis, err := devredis.Start("127.0.0.1:0") // your program connects to a real Redis
	if err != nil {
		log.Fatal(err)
	}
	defer redis.Close()
	c, err := client.OpenPool(client.PoolOptions{Addr: redis.Addr})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	ctx := context.Background()
	if _, err := c.Push(ctx, client.Message{Topic: "close_order", Body: "1001"}, 0); err != nil {
		log.Fatal(err)
	}

	mux := worker.NewMux()
	mux.HandleFunc("close_order", func(_ context.Context, job *worker.Job) error {
		fmt.Println("closing", job.Body)
		return nil
	})
	w := worker.New(c, mux, worker.Options{})
	job, err := w.RunOne(ctx, "close_order")
	fmt.Println(job.Attempt, err)
	job, err = w.RunOne(ctx, "close_order")
	fmt.Println(job, err)
	// Output:
	// closing 1001
	// 1 <nil>
	// <nil> delayer: fetch: no job is ready
}
