package main

import (
	"context"
	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/client/worker"
	"github.com/mix-basic/delayer/server"
	"log/slog"
	"time"
)

type Order struct {
	ID string `json:"order"`
}

const CloseOrder client.Topic[Order] = "close_order"

func pushOrder(ctx context.Context, c *client.Client, order Order) (client.Result, error) {
	return CloseOrder.Push(ctx, c, order, 30*time.Minute)
}

func pushOnce(ctx context.Context, c *client.Client, order Order) error {
	_, err := CloseOrder.Push(ctx, c, order, 30*time.Minute,
		client.ID("close-order-"+order.ID), client.IfExists(client.Refuse()), client.JobOptions{MaxAttempts: 5, Lease: time.Minute})
	return err
}

type Event struct{ Text string }

const Digest client.Topic[Event] = "digest"

// 某个客户的消息合成一封邮件：一分钟没有新消息、满一刻钟，或满 100 条时发出。
func pushEvent(ctx context.Context, c *client.Client, event Event) (client.Result, error) {
	group := client.Group{Key: "customer-42", Max: 100, Quiet: time.Minute, Longest: 15 * time.Minute}
	return Digest.Push(ctx, c, event, 0, group)
}

func handleEvents(mux *worker.Mux) {
	worker.HandleGroup(mux, Digest, func(ctx context.Context, events []Event) error {
		slog.Info("mail", "events", len(events))
		return nil
	})
}

func work(ctx context.Context, c *client.Client) error {
	return worker.Run(ctx, c, CloseOrder, closeIfUnpaid)
}

// nil：完成；错误：稍后重试，大约一天内最多 25 次。
func closeIfUnpaid(ctx context.Context, o Order) error {
	slog.Info("close", "order", o.ID)
	return nil
}

type Video struct{ Path string }

func workOnAll(ctx context.Context, c *client.Client, render func(context.Context, Video) error) error {
	mux := worker.NewMux()
	worker.Handle(mux, CloseOrder, closeIfUnpaid)
	worker.Handle(mux, "render", render, worker.TopicOptions{Concurrency: 2, Timeout: 10 * time.Minute, MaxAttempts: 3})
	return worker.New(c, mux, worker.Options{Concurrency: 20}).Run(ctx)
}

func reserveOne(ctx context.Context, c *client.Client, closeOrder func(body string) error) error {
	d, err := c.Reserve(ctx, time.Minute, "close_order")
	if err != nil {
		return err
	}
	if err := closeOrder(d.Body); err != nil {
		return d.Retry(ctx, 10*time.Second, err)
	}
	return d.Ack(ctx)
}

func limitInvoices(ctx context.Context, c *client.Client) error {
	return c.SetLimit(ctx, "invoice", client.Limit{Concurrency: 4, Rate: 10, Burst: 20})
}

func popOne(ctx context.Context, c *client.Client) error {
	m, err := c.BPop(ctx, 0, "close_order") // 等待时不取出任务：取消等待不会丢失任务
	if err != nil {
		return err
	}
	slog.Info("popped", "id", m.ID, "body", m.Body)
	return nil
}

func reportDaily(ctx context.Context, c *client.Client) (next time.Time, err error) {
	return c.Schedules().Set(ctx, client.Schedule{
		Name: "report", Cron: "0 7 * * mon-fri", Zone: "Europe/Berlin", // 或 Every: 90 * time.Second
		Topic: "report", Body: `{"of":"yesterday"}`,
	})
}

func pauseMail(ctx context.Context, c *client.Client) error {
	return c.Pause(ctx, "mail", client.PauseOptions{For: 2 * time.Hour, Note: "邮件服务器在搬迁，请问 Eve"})
}

func serve(ctx context.Context, r *client.Redis) error {
	s, err := server.New(r, server.Options{})
	if err != nil {
		return err
	}
	return s.Run(ctx)
}
