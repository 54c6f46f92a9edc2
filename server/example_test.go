package server_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/devredis"
	"github.com/mix-basic/delayer/server"
)

// A program embeds the server.
func ExampleServer_Run() {
	redis, err := devredis.Start("127.0.0.1:0") // your program connects to a real Redis
	if err != nil {
		log.Fatal(err)
	}
	defer redis.Close()

	r, err := client.Connect(client.PoolOptions{Addr: redis.Addr})
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close()
	moved := make(chan server.Moved, 1)
	s, err := server.New(r, server.Options{Hooks: server.Hooks{Moved: func(_ string, m server.Moved) { moved <- m }}})
	if err != nil {
		log.Fatal(err)
	}
	if err := s.Check(context.Background()); errors.Is(err, server.ErrRefused) {
		log.Fatal(err) // such as a wrong password; with other errors, Run keeps trying
	}
	c, err := client.New(r)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- s.Run(ctx) }()
	if _, err := c.Push(ctx, client.Message{Topic: "close_order", Body: "1001"}, 10*time.Millisecond); err != nil {
		log.Fatal(err)
	}
	m, err := c.BPop(ctx, time.Minute, "close_order")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(m.Body)
	late := (<-moved).Late
	fmt.Println("within a minute:", late.Quantile(1) <= time.Minute, "jobs:", late.Jobs())

	stop() // finishes the current batch
	fmt.Println(<-ended)
	// Output:
	// 1001
	// within a minute: true jobs: 1
	// <nil>
}
