package main

import (
	"context"
	"log"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/client/worker"
)

func main() {
	ctx := context.Background()
	c, err := client.Open("redis://127.0.0.1:6379")
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	for _, order := range []string{"1001", "1002"} {
		job := client.Message{ID: "close-" + order, Topic: "close_order", Body: order}
		if _, err := c.Push(ctx, job, 5*time.Second); err != nil {
			log.Fatal(err)
		}
	}

	// Order 1001 is paid in time.
	was, err := c.Remove(ctx, "close-1001")
	if err != nil {
		log.Fatal(err)
	}
	log.Println("cancelled order 1001, whose job was", was)

	err = worker.Run(ctx, c, "close_order", func(ctx context.Context, order int) error { // the body as JSON
		log.Println("closing unpaid order", order)
		return nil // done; after an error the job is tried again later
	})
	if err != nil {
		log.Fatal(err)
	}
}
