package main

import (
	"context"
	"errors"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/server"
)

const (
	pushChunk   = 1000 // jobs per PushBatch
	takeChunk   = 100  // jobs per PopBatch of a consumer
	scriptChunk = 250  // jobs per script call of PushBatch and PopBatch
)

// delayer is ours: a client from OpenPool and a server with default options.
type delayer struct {
	client *client.Client
	served client.Redis
	batch  int // of PopBatch; 0 for BPop
	parts  int // partitions; 0 for one
}

func newDelayer(r *Redis, batch int) *delayer {
	return newDelayerOn(client.PoolOptions{Addr: r.addr}, batch)
}

func newDelayerOn(o client.PoolOptions, batch int) *delayer {
	return &delayer{client.OpenPool(o), serverPool(o), batch, o.Partitions}
}

// serverPool is a pool for a server, which gets the partitions in its own options.
func serverPool(o client.PoolOptions) client.Redis {
	o.Partitions = 0
	return client.Connect(o)
}

func (p *delayer) Round(_, due time.Time) time.Time { return due }

func (p *delayer) Close() error { return errors.Join(p.client.Close(), p.served.Close()) }

func (p *delayer) Push(ctx context.Context, n int64, body string, due time.Time) error {
	_, err := p.client.PushAt(ctx, client.Message{ID: id(n), Topic: topic, Body: body}, due)
	return err
}

// serve moves jobs until ctx is done.
func (p *delayer) serve(ctx context.Context) {
	server.New(p.served, server.Options{Interval: time.Second, Partitions: p.parts}).Run(ctx)
}

func (p *delayer) Consume(ctx context.Context, workers int, got func(body string)) error {
	go p.serve(ctx)
	for range workers {
		go consume(ctx, p.client, topic, p.batch, got)
	}
	return nil
}

// consume waits with BPop; a batch consumer then takes what else is ready.
func consume(ctx context.Context, c *client.Client, topic string, batch int, got func(body string)) {
	for ctx.Err() == nil {
		m, err := c.BPop(ctx, time.Minute, topic)
		if err != nil {
			continue
		}
		got(m.Body)
		for batch > 0 && ctx.Err() == nil {
			list, err := c.PopBatch(ctx, topic, batch)
			for _, m := range list {
				got(m.Body)
			}
			if err != nil || len(list) == 0 {
				break
			}
		}
	}
}

func pushBatch(ctx context.Context, c *client.Client, from, n int64, due time.Time) error {
	jobs := make([]client.Delayed, n)
	for i := range jobs {
		jobs[i] = client.Delayed{Message: client.Message{ID: id(from + int64(i)), Topic: topic, Body: body(from + int64(i))}, At: due}
	}
	results, err := c.PushBatch(ctx, jobs)
	for _, r := range results {
		err = errors.Join(err, r.Err)
	}
	return err
}
