package client_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"testing"

	"github.com/mix-basic/delayer/client"
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

	code := redistest.Run(m, 20)
	cancel()
	<-ended
	r.Close()
	redis.Close()
	os.Exit(code)
}
