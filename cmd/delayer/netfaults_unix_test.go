//go:build !windows

package main

import (
	"bytes"
	"io"
	"net"
	"sync/atomic"
	"testing"

	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// relay forwards connections to a server, and knows whether a script is running.
type relay struct {
	tb      testing.TB
	addr    string
	scripts atomic.Int64 // scripts without a reply yet
}

func newRelay(tb testing.TB, to string) *relay {
	r := &relay{tb: tb}
	r.addr = listen(tb, func(from net.Conn) {
		server, err := net.Dial("tcp", to)
		if err != nil {
			return
		}
		defer server.Close()
		c := &relayed{from: from, to: server, relay: r}
		go io.Copy(writer(c.answer), server)
		io.Copy(writer(c.request), from)
	})
	return r
}

// hang makes Redis hang in a pass of a daemon behind the relay. The daemon has begun its passes, which follow each other.
func (r *relay) hang(db *redistest.Server, p *process) {
	r.tb.Helper()
	p.delivers(db.Fixture)
	db.Hang()
	eventually(r.tb, "a script is under way", func() bool { return r.scripts.Load() > 0 })
}

// relayed is one connection.
type relayed struct {
	from, to net.Conn
	relay    *relay
	script   atomic.Bool // a script is running
}

func (c *relayed) request(b []byte) (int, error) {
	// On a stalled machine, a connection idle for a second is tested with a PING first.
	if (bytes.Contains(b, []byte("EVALSHA")) || bytes.Contains(b, []byte("PING"))) && c.script.CompareAndSwap(false, true) {
		c.relay.scripts.Add(1)
	}
	return c.to.Write(b)
}

func (c *relayed) answer(b []byte) (int, error) {
	if c.script.CompareAndSwap(true, false) {
		c.relay.scripts.Add(-1)
	}
	return c.from.Write(b)
}

type writer func([]byte) (int, error)

func (w writer) Write(b []byte) (int, error) { return w(b) }

// mute is a server that accepts connections and never answers.
type mute struct {
	tb        testing.TB
	addr      string
	connected chan struct{}
	hangUp    chan struct{} // closing it ends the connections
}

func newMute(tb testing.TB) *mute {
	m := &mute{tb: tb, connected: make(chan struct{}, 100), hangUp: make(chan struct{})}
	m.addr = listen(tb, func(c net.Conn) {
		m.connected <- struct{}{}
		<-m.hangUp
	})
	return m
}

func (m *mute) waitForConnection() { <-m.connected }

// listen listens on a free loopback port and serves each connection.
func listen(tb testing.TB, serve func(net.Conn)) (addr string) {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(tb, err)
	tb.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				serve(c)
			}()
		}
	}()
	return l.Addr().String()
}
