package web

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"
)

// Detach has the rest of a request served apart from net/http, and without a goroutine that waits:
// that keeps some 20 KB for each request that waits, of which thousands may. start must not wait. It
// sees to it that answer is called, once, when there is something to answer: with a func that does
// that, by the w and r that start has got. Of the request this r has the context, method and path, but
// neither query, header nor body; what is answered is written in one piece, when that func flushes or
// returns. Then the connection goes on as ever. Nothing is to be done with Detach's own w and r
// afterwards. A request that can't be detached is served before Detach returns.
func Detach(w http.ResponseWriter, r *http.Request, start func(w http.ResponseWriter, r *http.Request, answer func(func()))) {
	attached := func() {
		answers := make(chan func(), 1)
		start(w, withClient(r), func(f func()) { answers <- f })
		(<-answers)()
	}
	front, ok := r.Context().Value(frontKey{}).(*Front)
	if !ok || r.ProtoMajor != 1 {
		attached()
		return
	}
	front.detached.Add(1) // before a front that stops forgets the connection
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		front.detached.Done()
		attached()
		return
	}
	counted, ok := w.(*countedWriter)
	if ok {
		counted.detached = true
	} else {
		counted = &countedWriter{counter: front.counter}
	}
	front.counter.waiting.Add(1)
	ahead, _ := buffered.Reader.Peek(buffered.Reader.Buffered())
	ahead = bytes.Clone(ahead)
	if before, ok := conn.(*readAhead); ok { // else a connection would be wrapped once more by each poll
		conn, ahead = before.Conn, append(ahead, before.ahead...)
	}
	d := &detached{
		front:  front,
		route:  counted.routeOf(r),
		conn:   conn,
		ahead:  ahead,
		header: w.Header(),
		last:   r.Close || !r.ProtoAtLeast(1, 1),
		done:   make(chan struct{}),
		goOn:   func() bool { return true },
	}
	ctx, cancel := context.WithCancel(context.WithValue(front.base, connKey{}, d))
	bare := &http.Request{ // with nothing that is a part of the request line, which may be long
		Method: strings.Clone(r.Method), URL: &url.URL{Path: strings.Clone(r.URL.Path)},
		ProtoMajor: r.ProtoMajor, ProtoMinor: r.ProtoMinor, Body: http.NoBody,
	}
	d.request = bare.WithContext(ctx)
	go d.watch(cancel)
	defer func() {
		if p := recover(); p != nil {
			d.serve(func() { panic(p) })
		}
	}()
	start(d, d.request, d.serve)
}

// detached is a connection, and the answer to its request that was detached.
type detached struct {
	front   *Front
	route   string
	request *http.Request
	once    sync.Once // it is served
	conn    net.Conn
	ahead   []byte // what was read of the next request
	header  http.Header
	status  int
	body    []byte
	done    chan struct{}
	goOn    func() bool // has the front's stop not end the connection

	mu      sync.Mutex // of what follows, and of what is written
	begun   int        // how many bytes of the answer were written to learn whether there is anybody
	written bool
	last    bool // the connection ends with the answer
	ended   bool // the client has closed the connection, or its side of it
	gone    bool // all of it
}

// serve has f answer, unless it is answered already.
func (d *detached) serve(f func()) { d.once.Do(func() { d.serveOnce(f) }) }

func (d *detached) serveOnce(f func()) {
	defer d.front.detached.Done()
	defer close(d.done)
	d.front.counter.waiting.Add(-1)
	defer func() {
		if p := recover(); p != nil {
			d.end()
			d.front.counter.answered(d.route, http.StatusInternalServerError)
			d.front.server.ErrorLog.Printf("panic serving %s: %v", d.request.URL.Path, p)
		}
	}()
	f()
	if d.FlushError() != nil || d.isLast() {
		d.end()
		return
	}
	d.conn.SetReadDeadline(time.Unix(1, 0)) // watch has seen enough
	d.goOn = context.AfterFunc(d.front.stopping, func() { d.conn.Close() })
}

// maxAhead is how much is read of next requests, in bytes, to learn whether the client hangs up.
const maxAhead = 16 << 10

func (d *detached) isLast() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.last
}

// end closes the connection.
func (d *detached) end() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.last = true
	d.conn.Close()
}

// watch waits for the client to hang up, and then, once it is answered, for the next request's first
// byte, with which the connection goes on.
func (d *detached) watch(cancel context.CancelFunc) {
	var err error
	for err == nil && len(d.ahead) < maxAhead {
		err = d.read()
	}
	if errors.Is(err, io.EOF) {
		d.isEnded()
		if !d.hungUp() {
			err = untilBroken(d.conn)
		}
	}
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		cancel()
	}
	<-d.done
	cancel()
	d.conn.SetReadDeadline(time.Now().Add(d.front.server.IdleTimeout))
	rest(d.conn, http.StateIdle)
	for err = nil; err == nil; err = d.read() {
		d.ahead = bytes.TrimLeft(d.ahead, "\r\n") // which some clients send behind a body
		if len(d.ahead) > 0 {
			break
		}
	}
	rest(d.conn, http.StateActive)
	if !d.goOn() || d.isLast() || len(d.ahead) == 0 {
		d.end()
		return
	}
	d.front.again.give(&readAhead{d.conn, d.ahead})
}

// read reads what comes of the next request.
func (d *detached) read() error {
	var next [64]byte // thousands wait
	n, err := d.conn.Read(next[:])
	d.ahead = append(d.ahead, next[:n]...)
	return err
}

func (d *detached) Header() http.Header { return d.header }

func (d *detached) WriteHeader(status int) { d.status = status }

func (d *detached) Write(p []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.written {
		return 0, errors.New("the answer is written already")
	}
	d.body = append(d.body, p...)
	return len(p), nil
}

// isEnded enters that the client has closed the connection, or its side of it.
func (d *detached) isEnded() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ended, d.last = true, d.last || len(d.ahead) == 0
}

// hungUp reports whether the client has closed the connection. If it has closed it or its own side of it,
// which is all that can be seen, the next byte of the answer tells: where nobody reads any more it is
// refused. All answers begin alike.
func (d *detached) hungUp() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.gone:
	case !d.ended && !isClosed(d.conn):
	case d.written || d.begun == len(beginning):
		d.gone = true
	default:
		d.ended = true
		_, err := d.conn.Write([]byte{beginning[d.begun]})
		d.begun++
		d.gone = err != nil || !isRead(d.conn)
	}
	return d.gone
}

// beginning is what all answers begin with.
const beginning = "HTTP/1.1 "

// FlushError writes the whole answer.
func (d *detached) FlushError() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.written {
		return nil
	}
	if d.gone {
		return net.ErrClosed
	}
	d.written = true
	d.front.counter.answered(d.route, max(d.status, http.StatusOK))
	d.last = d.last || d.front.stopping.Err() != nil
	d.header.Set("Date", time.Now().UTC().Format(http.TimeFormat))
	answer := http.Response{
		Request: d.request, StatusCode: max(d.status, http.StatusOK), ProtoMajor: 1, ProtoMinor: 1, Header: d.header,
		Body: io.NopCloser(bytes.NewReader(d.body)), ContentLength: int64(len(d.body)), Close: d.last,
	}
	var text bytes.Buffer
	answer.Write(&text)
	_, err := d.conn.Write(text.Bytes()[d.begun:])
	d.last = d.last || err != nil
	return err
}

func (d *detached) SetWriteDeadline(t time.Time) error { return d.conn.SetWriteDeadline(t) }

// SetReadDeadline does nothing: what comes is of the next request.
func (d *detached) SetReadDeadline(time.Time) error { return nil }
