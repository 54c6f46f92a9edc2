package main

import (
	"context"
	"io"
	"log/slog"

	"github.com/mix-basic/delayer/client/worker"
)

// delayerWorker is our client with a worker with default options as the consumer.
type delayerWorker struct {
	*delayer
	done chan error
}

func newDelayerWorker(r *Run) *delayerWorker {
	return &delayerWorker{newDelayer(r.Redis, 0), nil}
}

func (p *delayerWorker) Consume(ctx context.Context, workers int, got func(body string)) error {
	go p.serve(ctx)
	mux := worker.NewMux()
	mux.HandleFunc(topic, func(_ context.Context, job *worker.Job) error {
		got(job.Body)
		return nil
	})
	w := worker.New(p.client, mux, worker.Options{Concurrency: workers, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	p.done = make(chan error, 1)
	go func() { p.done <- w.Run(ctx) }()
	return nil
}

func (p *delayerWorker) Close() error {
	if p.done != nil {
		<-p.done
	}
	return p.delayer.Close()
}
