package main

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/beanstalkd/go-beanstalk"
)

// beanstalkdPeer is a beanstalkd without a write-ahead log, like our Redis without an append-only file. Each
// goroutine has its own connection.
type beanstalkdPeer struct {
	daemon *daemon
	conns  conns[*beanstalk.Conn]
	held   bool
	wg     sync.WaitGroup
}

func newBeanstalkd() *beanstalkdPeer {
	addr := freeAddr()
	_, port, _ := net.SplitHostPort(addr)
	return &beanstalkdPeer{
		daemon: startDaemon(addr, "beanstalkd", "-l", "127.0.0.1", "-p", port),
		conns: newConns(func() *beanstalk.Conn {
			c := must(beanstalk.Dial("tcp", addr))
			c.Tube.Name = topic
			return c
		}),
	}
}

// Round: delays are whole seconds from now.
func (p *beanstalkdPeer) Round(now, due time.Time) time.Time {
	return now.Add(wholeSeconds(due.Sub(now)))
}

func wholeSeconds(d time.Duration) time.Duration {
	return (d + time.Second - 1).Truncate(time.Second)
}

// Hold pauses the tube until then. What is pushed is due before that.
func (p *beanstalkdPeer) Hold(until time.Time) {
	time.Sleep(time.Until(until) % time.Second)
	p.held = true
	check(p.conns.use(func(c *beanstalk.Conn) error {
		c.Tube.PeekReady() // creates the tube
		return c.Tube.Pause(time.Until(until).Round(time.Second))
	}))
}

func (p *beanstalkdPeer) Push(_ context.Context, _ int64, body string, due time.Time) error {
	delay := time.Until(due)
	if p.held {
		delay = max(delay.Truncate(time.Second), 0)
	} else {
		delay = delay.Round(time.Second)
	}
	return p.conns.use(func(c *beanstalk.Conn) error {
		_, err := c.Put([]byte(body), 1, delay, time.Minute)
		return err
	})
}

func (p *beanstalkdPeer) Consume(ctx context.Context, workers int, got func(body string)) {
	for range workers {
		c := must(beanstalk.Dial("tcp", p.daemon.addr))
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
}

func (p *beanstalkdPeer) cpu() time.Duration {
	var stats map[string]string
	check(p.conns.use(func(c *beanstalk.Conn) (err error) {
		stats, err = c.Stats()
		return err
	}))
	return must(time.ParseDuration(stats["rusage-utime"]+"s")) + must(time.ParseDuration(stats["rusage-stime"]+"s"))
}

func (p *beanstalkdPeer) memory() float64 { return p.daemon.residentBytes() }

func (p *beanstalkdPeer) Close() {
	p.wg.Wait()
	p.conns.Close()
	p.daemon.stop()
}
