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

// One mail about all that happens to a customer: a minute after the last event, and after 15 minutes or 100 events at most.
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

// nil: done; an error: again later, up to 25 times over about a day.
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
	m, err := c.BPop(ctx, 0, "close_order") // waits without taking: cancelling loses nothing
	if err != nil {
		return err
	}
	slog.Info("popped", "id", m.ID, "body", m.Body)
	return nil
}

func reportDaily(ctx context.Context, c *client.Client) (next time.Time, err error) {
	return c.Schedules().Set(ctx, client.Schedule{
		Name: "report", Cron: "0 7 * * mon-fri", Zone: "Europe/Berlin", // or Every: 90 * time.Second
		Topic: "report", Body: `{"of":"yesterday"}`,
	})
}

func pauseMail(ctx context.Context, c *client.Client) error {
	return c.Pause(ctx, "mail", client.PauseOptions{For: 2 * time.Hour, Note: "the server is moved, ask Eve"})
}

func serve(ctx context.Context, r *client.Redis) error {
	s, err := server.New(r, server.Options{})
	if err != nil {
		return err
	}
	return s.Run(ctx)
}
