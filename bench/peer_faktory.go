package main

import (
	"context"
	"path/filepath"
	"strings"
	"sync"
	"time"

	faktory "github.com/contribsys/faktory/client"
)

// faktoryPeer is a Faktory server, built from its module, with its own redis-server. Each goroutine has its
// own connection.
type faktoryPeer struct {
	daemon *daemon
	store  *Redis // its redis-server
	conns  conns[*faktory.Client]
	wg     sync.WaitGroup
}

func newFaktory() *faktoryPeer {
	program := strings.TrimSpace(string(output("go", "tool", "-n", "faktory"))) // is built on first use
	addr, dir := freeAddr(), newFolder()
	faktory.RandomProcessWid = "bench" // workers identify themselves on their connections
	p := &faktoryPeer{
		daemon: startDaemon(addr, program, "-b", addr, "-w", freeAddr(), "-d", dir, "-c", dir, "-l", "error"),
		store:  &Redis{Pool: newPool("unix", filepath.Join(dir, "redis.sock"), 1)},
	}
	p.conns = newConns(p.open)
	return p
}

func (p *faktoryPeer) open() *faktory.Client {
	return must((&faktory.Server{Network: "tcp", Address: p.daemon.addr, Timeout: 10 * time.Second}).Open())
}

func (p *faktoryPeer) Round(_, due time.Time) time.Time { return due }

func (p *faktoryPeer) Push(_ context.Context, _ int64, body string, due time.Time) error {
	job := faktory.NewJob(topic, body)
	job.At = due.UTC().Format(time.RFC3339Nano)
	return p.conns.use(func(c *faktory.Client) error { return c.Push(job) })
}

func (p *faktoryPeer) Consume(ctx context.Context, workers int, got func(body string)) {
	for range workers {
		c := p.open()
		p.wg.Go(func() {
			defer c.Close()
			for ctx.Err() == nil {
				job, err := c.Fetch("default") // waits up to 2 s
				if err != nil {
					return
				}
				if job == nil {
					continue
				}
				if body, ok := job.Args[0].(string); ok {
					got(body)
				}
				if c.Ack(job.Jid) != nil {
					return
				}
			}
		})
	}
}

// cpu returns the CPU time of the server and its redis-server.
func (p *faktoryPeer) cpu() time.Duration { return p.daemon.cpu() + p.store.cpu() }

func (p *faktoryPeer) memory() float64 { return p.store.memory() }

func (p *faktoryPeer) Close() {
	p.wg.Wait()
	p.conns.Close()
	p.store.Pool.Close()
	p.daemon.stop()
}
