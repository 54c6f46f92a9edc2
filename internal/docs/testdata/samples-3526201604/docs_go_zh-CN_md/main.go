package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/mix-basic/delayer/client"
)

func main() {
	c, err := client.Open("redis://:password@127.0.0.1:6379/0")
	if err != nil {
		panic(err)
	}
	defer c.Close()
	if err := pushAndCancel(context.Background(), c); err != nil {
		panic(err)
	}
}

func pushAndCancel(ctx context.Context, c *client.Client) error {
	pushed, err := c.Push(ctx, client.Message{
		ID:    "close-order-1001", // 留空则自动生成
		Topic: "close_order",
		Body:  `{"order":"1001"}`,
	}, 30*time.Minute)
	if err != nil {
		return err
	}
	was, err := c.Remove(ctx, pushed.ID) // 订单按时支付了
	if was == client.StateReserved {
		slog.Warn("a worker may be closing the order", "job", pushed.ID)
	}
	return err
}
