package main

import (
	"context"
	"io"
	golog "log"
	"time"

	"github.com/RichardKnop/machinery/v2"
	null "github.com/RichardKnop/machinery/v2/backends/null"
	broker "github.com/RichardKnop/machinery/v2/brokers/redis"
	"github.com/RichardKnop/machinery/v2/config"
	lock "github.com/RichardKnop/machinery/v2/locks/eager"
	mlog "github.com/RichardKnop/machinery/v2/log"
	"github.com/RichardKnop/machinery/v2/tasks"
)

// machineryPeer is machinery on Redis without a result store. It polls for one due task each millisecond, the
// shortest interval possible, and waits for ready tasks with BLPOP.
type machineryPeer struct {
	server *machinery.Server
	worker *machinery.Worker
	errs   chan error
}

func newMachinery(r *Redis) (*machineryPeer, error) {
	mlog.Set(golog.New(io.Discard, "", 0))
	c := &config.Config{
		DefaultQueue: "machinery", ResultsExpireIn: 60, NoUnixSignals: true,
		Redis: &config.RedisConfig{MaxIdle: 32, MaxActive: 32, DelayedTasksPollPeriod: 1, NormalTasksPollPeriod: 1000},
	}
	return &machineryPeer{server: machinery.NewServer(c, broker.NewGR(c, []string{r.addr}, 0), null.New(), lock.New())}, nil
}

func (p *machineryPeer) Round(_, due time.Time) time.Time { return due }

func (p *machineryPeer) Push(ctx context.Context, _ int64, body string, due time.Time) error {
	_, err := p.server.SendTaskWithContext(ctx, &tasks.Signature{
		Name: topic, ETA: &due, Args: []tasks.Arg{{Type: "string", Value: body}},
	})
	return err
}

func (p *machineryPeer) Consume(ctx context.Context, workers int, got func(body string)) error {
	err := p.server.RegisterTask(topic, func(body string) error {
		got(body)
		return nil
	})
	if err != nil {
		return err
	}
	p.worker = p.server.NewWorker("bench", workers)
	p.errs = make(chan error, 1)
	p.worker.LaunchAsync(p.errs)
	return nil
}

func (p *machineryPeer) Close() error {
	if p.worker != nil {
		p.worker.Quit()
	}
	return nil
}
