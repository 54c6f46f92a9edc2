package main

import (
	"context"
	"time"

	"github.com/gocraft/work"
	"github.com/gomodule/redigo/redis"
)

// gocraftPeer is gocraft/work. It polls for due jobs every second; that is fixed.
type gocraftPeer struct {
	redis    *redis.Pool
	enqueuer *work.Enqueuer
	pool     *work.WorkerPool
}

const gocraftNamespace = "work"

func newGocraft(r *Redis) *gocraftPeer {
	pool := newPool(r.addr, 40)
	return &gocraftPeer{redis: pool, enqueuer: work.NewEnqueuer(gocraftNamespace, pool)}
}

// Its delays are whole seconds, counted from the current whole second.
func (p *gocraftPeer) Round(_, due time.Time) time.Time { return nextSecond(due) }

func (p *gocraftPeer) Push(_ context.Context, _ int64, body string, due time.Time) error {
	_, err := p.enqueuer.EnqueueIn(topic, due.Unix()-time.Now().Unix(), work.Q{"body": body})
	return err
}

type gocraftContext struct{}

func (p *gocraftPeer) Consume(ctx context.Context, workers int, got func(body string)) error {
	p.pool = work.NewWorkerPool(gocraftContext{}, uint(workers), gocraftNamespace, p.redis)
	p.pool.Job(topic, func(job *work.Job) error {
		got(job.ArgString("body"))
		return nil
	})
	p.pool.Start()
	return nil
}

func (p *gocraftPeer) Close() error {
	if p.pool != nil {
		p.pool.Stop()
	}
	return p.redis.Close()
}
