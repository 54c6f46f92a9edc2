package main

import (
	"context"
	"errors"
	"log"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/client/worker"
)

func main() {
	c, err := client.Open("redis://127.0.0.1:6379")
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	if err := publish(context.Background(), c, "1001"); err != nil {
		log.Fatal(err)
	}
	if err := consume(context.Background(), c); err != nil {
		log.Fatal(err)
	}
}

func publish(ctx context.Context, c *client.Client, order string) error {
	job := client.Message{ID: "close-" + order, Topic: "close_order", Body: order}
	_, err := c.Push(ctx, job, 30*time.Minute)
	return err // nil: Redis has it, like a publisher confirm
}

var errNoOrder = errors.New("no such order")

func consume(ctx context.Context, c *client.Client) error {
	mux := worker.NewMux()
	mux.HandleFunc("close_order", func(ctx context.Context, job *worker.Job) error {
		err := closeOrder(job.Body)
		if errors.Is(err, errNoOrder) {
			return worker.Bury(err) // Nack(false, false): a dead letter
		}
		return err // nil: Ack; an error: Nack(false, true), with growing delays
	})
	return worker.New(c, mux, worker.Options{Concurrency: 20}).Run(ctx) // Qos(20, 0, false)
}

func closeOrder(order string) error { return nil }
