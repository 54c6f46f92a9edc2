package main

import (
	"context"
	"time"

	"github.com/hibiken/asynq"
)

// asynqPeer is asynq, polling for due and new tasks every 10 ms instead of every 5 s and 1 s.
type asynqPeer struct {
	redis  asynq.RedisClientOpt
	client *asynq.Client
	server *asynq.Server
}

const asynqInterval = 10 * time.Millisecond

func newAsynq(r *Redis) *asynqPeer {
	o := asynq.RedisClientOpt{Addr: r.addr, PoolSize: 32}
	return &asynqPeer{redis: o, client: asynq.NewClient(o)}
}

// asynq stores whole seconds.
func (p *asynqPeer) Round(_, due time.Time) time.Time { return nextSecond(due) }

func (p *asynqPeer) Push(ctx context.Context, _ int64, body string, due time.Time) error {
	_, err := p.client.EnqueueContext(ctx, asynq.NewTask(topic, []byte(body)), asynq.ProcessAt(due))
	return err
}

func (p *asynqPeer) Consume(ctx context.Context, workers int, got func(body string)) {
	p.server = asynq.NewServer(p.redis, asynq.Config{
		Concurrency:              workers,
		DelayedTaskCheckInterval: asynqInterval,
		TaskCheckInterval:        asynqInterval,
		LogLevel:                 asynq.FatalLevel,
	})
	check(p.server.Start(asynq.HandlerFunc(func(_ context.Context, t *asynq.Task) error {
		got(string(t.Payload()))
		return nil
	})))
}

func (p *asynqPeer) Close() {
	if p.server != nil {
		p.server.Shutdown()
	}
	p.client.Close()
}
