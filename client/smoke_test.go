package client

import (
	"context"
	"testing"
	"time"

	"github.com/mix-basic/delayer/internal/redistest"
	"github.com/mix-basic/delayer/server"
)

func TestSmoke(t *testing.T) {
	r := redistest.Start(t)
	c := OpenPool(PoolOptions{Addr: r.Addr})
	defer c.Close()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- server.New(r.Pool(), server.Options{}).Run(ctx) }()
	id, err := c.Push(ctx, Message{Topic: "t", Body: "b"}, 300*time.Millisecond)
	t.Log(id, err)
	j, err := c.Get(ctx, id)
	t.Logf("%+v %v", j, err)
	start := time.Now()
	m, err := c.BPop(ctx, 3*time.Second, "u", "t")
	t.Log(m, err, time.Since(start))
	_, err = c.Pop(ctx, "t")
	t.Log(err)
	c.Push(ctx, Message{Topic: "t", Body: "b", ID: "x"}, 0)
	j, err = c.Get(ctx, "x")
	t.Logf("%+v %v", j, err)
	t.Log(c.Remove(ctx, "x"))
	conn := r.Pool().Get()
	t.Logf("%+v", redistest.Read(t, conn, "delayer:"))
	cancel()
	t.Log(<-done)
}
