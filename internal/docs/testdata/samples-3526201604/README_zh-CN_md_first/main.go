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

	// 订单 1001 已按时支付。
	was, err := c.Remove(ctx, "close-1001")
	if err != nil {
		log.Fatal(err)
	}
	log.Println("cancelled order 1001, whose job was", was)

	err = worker.Run(ctx, c, "close_order", func(ctx context.Context, order int) error { // 任务内容按 JSON 解码
		log.Println("closing unpaid order", order)
		return nil // 处理完成；返回错误则稍后重试
	})
	if err != nil {
		log.Fatal(err)
	}
}
