//go:build !windows

package main

import (
	"io"
	"net"
	"sync/atomic"
	"testing"
)

// relay passes connections on to a server and counts the requests, so that a test
// knows that one is under way.
type relay struct {
	tb       testing.TB
	addr     string
	requests atomic.Int64
	hanging  chan struct{} // closed: answers are kept back
}

func newRelay(tb testing.TB, to string) *relay {
	r := &relay{tb: tb, hanging: make(chan struct{})}
	r.addr = listen(tb, func(from net.Conn) {
		server, err := net.Dial("tcp", to)
		if err != nil {
			return
		}
		defer server.Close()
		go io.Copy(&answers{from, r}, server)
		io.Copy(server, &requests{from, r})
	})
	return r
}

// hang keeps back the answers to whatever waitForRequests is told of from now on.
func (r *relay) hang() { close(r.hanging) }

// waitForRequests waits until so many more requests than now have come.
func (r *relay) waitForRequests(more int64) {
	r.tb.Helper()
	enough := r.requests.Load() + more
	eventually(r.tb, "requests", func() bool { return r.requests.Load() >= enough })
}

type requests struct {
	io.Reader
	relay *relay
}

func (r *requests) Read(b []byte) (int, error) {
	n, err := r.Reader.Read(b)
	r.relay.requests.Add(1)
	return n, err
}

type answers struct {
	io.Writer
	relay *relay
}

func (a *answers) Write(b []byte) (int, error) {
	select {
	case <-a.relay.hanging:
		return len(b), nil
	default:
		return a.Writer.Write(b)
	}
}

// mute is a server that takes connections and says nothing.
type mute struct {
	tb        testing.TB
	addr      string
	connected chan struct{}
	hangUp    chan struct{} // closed: connections end
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

// listen serves each connection on a free port of loopback.
func listen(tb testing.TB, serve func(net.Conn)) (addr string) {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
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
