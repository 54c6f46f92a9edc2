package main

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/beanstalkd/go-beanstalk"
)

// beanstalkdPeer is a beanstalkd without a write-ahead log, like our Redis without an append-only file. Each
// goroutine has its own connection.
type beanstalkdPeer struct {
	daemon *daemon
	conns  chan *beanstalk.Conn
	held   bool
	wg     sync.WaitGroup
}

const beanstalkConns = 32

func newBeanstalkd(r *Run) (*beanstalkdPeer, error) {
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	_, port, _ := net.SplitHostPort(addr)
	d, err := startDaemon(addr, "beanstalkd", "-l", "127.0.0.1", "-p", port)
	if err != nil {
		return nil, err
	}
	p := &beanstalkdPeer{daemon: d, conns: make(chan *beanstalk.Conn, beanstalkConns)}
	for range beanstalkConns {
		c, err := beanstalk.Dial("tcp", addr)
		if err != nil {
			return nil, errors.Join(err, p.Close())
		}
		c.Tube.Name = topic
		p.conns <- c
	}
	return p, nil
}

// Round: delays are whole seconds from now.
func (p *beanstalkdPeer) Round(now, due time.Time) time.Time {
	return now.Add(wholeSeconds(due.Sub(now)))
}

func wholeSeconds(d time.Duration) time.Duration {
	return (d + time.Second - 1).Truncate(time.Second)
}

// Hold pauses the tube until then. What is pushed is due before that.
func (p *beanstalkdPeer) Hold(until time.Time) error {
	time.Sleep(time.Until(until) % time.Second)
	c := <-p.conns
	defer func() { p.conns <- c }()
	c.Tube.PeekReady() // creates the tube
	p.held = true
	return c.Tube.Pause(time.Until(until).Round(time.Second))
}

func (p *beanstalkdPeer) Push(_ context.Context, _ int64, body string, due time.Time) error {
	delay := time.Until(due)
	if p.held {
		delay = max(delay.Truncate(time.Second), 0)
	} else {
		delay = delay.Round(time.Second)
	}
	c := <-p.conns
	defer func() { p.conns <- c }()
	_, err := c.Put([]byte(body), 1, delay, time.Minute)
	return err
}

func (p *beanstalkdPeer) Consume(ctx context.Context, workers int, got func(body string)) error {
	for range workers {
		c, err := beanstalk.Dial("tcp", p.daemon.addr)
		if err != nil {
			return err
		}
		tubes := beanstalk.NewTubeSet(c, topic)
		context.AfterFunc(ctx, func() { c.Close() }) // ends the wait
		p.wg.Go(func() {
			for ctx.Err() == nil {
				id, body, err := tubes.Reserve(time.Minute)
				if err != nil {
					continue
				}
				got(string(body))
				c.Delete(id)
			}
		})
	}
	return nil
}

func (p *beanstalkdPeer) cpu() (time.Duration, error) {
	c := <-p.conns
	defer func() { p.conns <- c }()
	stats, err := c.Stats()
	if err != nil {
		return 0, err
	}
	user, err1 := time.ParseDuration(stats["rusage-utime"] + "s")
	system, err2 := time.ParseDuration(stats["rusage-stime"] + "s")
	return user + system, errors.Join(err1, err2)
}

func (p *beanstalkdPeer) memory() (float64, error) { return p.daemon.residentBytes() }

func (p *beanstalkdPeer) Close() error {
	p.wg.Wait()
	close(p.conns)
	for c := range p.conns {
		c.Close()
	}
	p.daemon.stop()
	return nil
}
