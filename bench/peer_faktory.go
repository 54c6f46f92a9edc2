package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	faktory "github.com/contribsys/faktory/client"
	"github.com/gomodule/redigo/redis"
)

// faktoryPeer is a Faktory server, built from its module, with its own redis-server. Each goroutine has its
// own connection.
type faktoryPeer struct {
	daemon *daemon
	store  redis.Conn // to its redis-server
	conns  chan *faktory.Client
	wg     sync.WaitGroup
}

const faktoryConns = 32

// faktoryServer returns the path of the server, built on first use.
func faktoryServer() (string, error) {
	build := exec.Command("go", "tool", "-n", "faktory")
	build.Stderr = os.Stderr
	path, err := build.Output()
	if err != nil {
		return "", fmt.Errorf("building faktory: %w", err)
	}
	return strings.TrimSpace(string(path)), nil
}

func newFaktory() (*faktoryPeer, error) {
	program, err := faktoryServer()
	if err != nil {
		return nil, err
	}
	addr, err1 := freeAddr()
	web, err2 := freeAddr()
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	dir, err := newFolder()
	if err != nil {
		return nil, err
	}
	d, err := startDaemon(addr, program, "-b", addr, "-w", web, "-d", dir, "-c", dir, "-l", "error")
	if err != nil {
		return nil, err
	}
	p := &faktoryPeer{daemon: d, conns: make(chan *faktory.Client, faktoryConns)}
	if p.store, err = redis.Dial("unix", filepath.Join(dir, "redis.sock")); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	// Workers identify themselves on their connections.
	faktory.RandomProcessWid = "bench"
	for range faktoryConns {
		c, err := p.open()
		if err != nil {
			return nil, errors.Join(err, p.Close())
		}
		p.conns <- c
	}
	return p, nil
}

func (p *faktoryPeer) open() (*faktory.Client, error) {
	return (&faktory.Server{Network: "tcp", Address: p.daemon.addr, Timeout: 10 * time.Second}).Open()
}

func (p *faktoryPeer) Round(_, due time.Time) time.Time { return due }

func (p *faktoryPeer) Push(_ context.Context, _ int64, body string, due time.Time) error {
	job := faktory.NewJob(topic, body)
	job.At = due.UTC().Format(time.RFC3339Nano)
	c := <-p.conns
	defer func() { p.conns <- c }()
	return c.Push(job)
}

func (p *faktoryPeer) Consume(ctx context.Context, workers int, got func(body string)) error {
	for range workers {
		c, err := p.open()
		if err != nil {
			return err
		}
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
	return nil
}

// cpu returns the CPU time of the server and its redis-server.
func (p *faktoryPeer) cpu() (time.Duration, error) {
	server, err1 := p.daemon.cpu()
	store, err2 := cpuOfRedis(p.store)
	return server + store, errors.Join(err1, err2)
}

func (p *faktoryPeer) memory() (float64, error) { return infoOf(p.store, "used_memory") }

func (p *faktoryPeer) Close() error {
	p.wg.Wait()
	close(p.conns)
	for c := range p.conns {
		c.Close()
	}
	if p.store != nil {
		p.store.Close()
	}
	p.daemon.stop()
	return nil
}
