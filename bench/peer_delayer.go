package main

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/client/worker"
	"github.com/mix-basic/delayer/server"
)

const (
	pushChunk   = 1000 // jobs per PushBatch
	takeChunk   = 100  // jobs per PopBatch of a consumer
	scriptChunk = 250  // jobs per script call, the most that Fetch takes
)

// delayer is ours: a client from OpenPool and a server with default options.
type delayer struct {
	client    *client.Client
	served    *client.Redis
	batch     int              // of PopBatch; 0 for BPop
	consuming []*client.Client // one for each worker; nil if client has all
}

func newDelayer(r *Redis, batch int) *delayer {
	return newDelayerOn(client.PoolOptions{Addr: r.addr}, batch)
}

func newDelayerOn(o client.PoolOptions, batch int) *delayer {
	return &delayer{must(client.OpenPool(o)), must(client.Connect(o)), batch, nil}
}

// openClient opens a client of our Redis.
func (r *Run) openClient() *client.Client {
	return must(client.OpenPool(client.PoolOptions{Addr: r.Redis.addr}))
}

func (p *delayer) Round(_, due time.Time) time.Time { return due }

func (p *delayer) Close() {
	for _, c := range append(p.consuming, p.client) {
		c.Close()
	}
	p.served.Close()
}

// jobOf is job n.
func jobOf(n int64) client.Message {
	return client.Message{ID: id(n), Topic: topic, Body: body(n)}
}

func (p *delayer) Push(ctx context.Context, n int64, body string, due time.Time) error {
	_, err := p.client.PushAt(ctx, client.Message{ID: id(n), Topic: topic, Body: body}, due)
	return err
}

// serve moves jobs until ctx is done.
func (p *delayer) serve(ctx context.Context) {
	must(server.New(p.served, server.Options{Logger: slog.New(slog.DiscardHandler), Interval: time.Second})).Run(ctx)
}

func (p *delayer) Consume(ctx context.Context, workers int, got func(body string)) {
	go p.serve(ctx)
	for i := range workers {
		c := p.client
		if p.consuming != nil {
			c = p.consuming[i]
		}
		go consume(ctx, c, topic, p.batch, got)
	}
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
			list, err := c.Fetch(ctx, popped(topic, batch))
			for _, m := range list {
				got(m.Body)
			}
			if err != nil || len(list) == 0 {
				break
			}
		}
	}
}

// popped are options that pop up to n jobs that are ready now.
func popped(topic string, n int) client.FetchOptions {
	return client.FetchOptions{Topics: []client.FetchTopic{{Topic: topic}}, Max: min(n, scriptChunk), Pop: true, NoWait: true}
}

// reserved are options that reserve up to n jobs that are ready now.
func reserved(topic string, n int, lease time.Duration) client.FetchOptions {
	o := popped(topic, n)
	o.Pop, o.Lease = false, lease
	return o
}

// pushBatch pushes jobs from..from+n-1 in one call.
func pushBatch(ctx context.Context, c *client.Client, from, n int, due time.Time) {
	pushAll(ctx, c, n, func(i int) client.Item { return client.Item{Message: jobOf(int64(from + i)), At: due} })
}

func pushAll(ctx context.Context, c *client.Client, n int, job func(i int) client.Item) {
	jobs := make([]client.Item, n)
	for i := range jobs {
		jobs[i] = job(i)
	}
	results, err := c.PushBatch(ctx, jobs)
	for _, r := range results {
		err = errors.Join(err, r.Err)
	}
	check(err)
}

// delayerWorker is our client with a worker with default options as the consumer.
type delayerWorker struct {
	*delayer
	done chan error
}

func (p *delayerWorker) Consume(ctx context.Context, workers int, got func(body string)) {
	go p.serve(ctx)
	p.done = make(chan error, 1)
	go func() { p.done <- work(ctx, p.client, workers, got, topic) }()
}

// work handles jobs of the topics until ctx is done.
func work(ctx context.Context, c *client.Client, concurrency int, got func(body string), topics ...string) error {
	mux := worker.NewMux()
	for _, topic := range topics {
		mux.HandleFunc(topic, func(_ context.Context, job *worker.Job) error {
			got(job.Body)
			return nil
		})
	}
	return worker.New(c, mux, worker.Options{Concurrency: concurrency, Logger: slog.New(slog.DiscardHandler)}).Run(ctx)
}

func (p *delayerWorker) Close() {
	if p.done != nil {
		<-p.done
	}
	p.delayer.Close()
}
