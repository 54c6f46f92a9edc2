// Command calls makes one call after the first line of its standard input, and writes the coverage counters since then to a folder after
// each further line. The test of package hops builds it with counters and tells it when to begin.
package main

import (
	"bufio"
	"context"
	"fmt"
	"log"
	"log/slog"
	"os"
	"runtime/coverage"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/server"
)

var ctx = context.Background()

func main() {
	name, addr, out := os.Args[1], os.Args[2], os.Args[3]
	c, err := client.OpenPool(client.PoolOptions{Addr: addr})
	check(err)
	run := prepare(name, addr, c)
	input := bufio.NewScanner(os.Stdin)
	fmt.Println("ready")
	input.Scan()
	check(coverage.ClearCounters())
	fmt.Println("counting")
	run()
	check(coverage.WriteMetaDir(out))
	for input.Scan() {
		check(coverage.WriteCountersDir(out))
		fmt.Println("counted")
	}
}

// prepare makes the call once to warm up, and returns a function that makes it again.
func prepare(name, addr string, c *client.Client) func() {
	push := func(id string, delay time.Duration) {
		_, err := c.Push(ctx, client.Message{ID: id, Topic: "t", Body: "body"}, delay)
		check(err)
	}
	switch name {
	case "push":
		push("warm", time.Hour)
		return func() { push("counted", time.Hour) }
	case "pop":
		pop := func() {
			_, err := c.Pop(ctx, "t")
			check(err)
		}
		push("warm", 0)
		pop()
		push("counted", 0)
		return pop
	case "ack":
		reserve := func(id string) *client.Delivery {
			push(id, 0)
			d, err := c.Reserve(ctx, time.Minute, "t")
			check(err)
			return d
		}
		check(reserve("warm").Ack(ctx))
		d := reserve("counted")
		return func() { check(d.Ack(ctx)) }
	case "wake": // the test pushes what wakes it, twice
		wait := func() chan bool {
			done := make(chan bool)
			go func() {
				_, err := c.BPop(ctx, time.Minute, "t")
				check(err)
				close(done)
			}()
			return done
		}
		<-wait()
		counted := wait()
		return func() { <-counted }
	case "pass": // the test pushes what is moved
		r, err := client.Connect(client.PoolOptions{Addr: addr})
		check(err)
		s, err := server.New(r, server.Options{Logger: slog.New(slog.DiscardHandler)})
		check(err)
		go s.Run(ctx)
		return func() {}
	}
	log.Fatalf("want push, pop, ack, wake or pass, not %q", name)
	return nil
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
