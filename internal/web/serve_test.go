package web

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// serve starts a server with the handlers by path. stop stops it and checks for errors.
func serve(t *testing.T, handlers map[string]http.HandlerFunc) (addr string, stop func()) {
	t.Helper()
	return serveOn(t, func(l net.Listener) net.Listener { return l }, handlers)
}

// serveOn is serve with a custom listener.
func serveOn(t *testing.T, listener func(net.Listener) net.Listener, handlers map[string]http.HandlerFunc) (addr string, stop func()) {
	t.Helper()
	var areas []Area
	for path, handler := range handlers {
		areas = append(areas, Area{Patterns: []string{path}, Handler: handler})
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	return l.Addr().String(), background(t, New(Options{}, areas...), listener(l))
}

// background runs the server until stop is called.
func background(t *testing.T, s *Server, l net.Listener) (stop func()) {
	return redistest.Background(t, func(ctx context.Context) error { return s.Serve(ctx, l) })
}

// dial connects to the server.
func dial(t *testing.T, addr string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	check(t, err)
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(hangBound))
	return conn
}

var check, until = redistest.Check, redistest.Until

// poller reports the poll's body on began, then answers with the cause of its context's end.
func poller(wait time.Duration, began chan string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := ReadBody(w, r, 100)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		ctx, cancel := Long(w, r, wait)
		defer cancel()
		began <- string(body)
		<-ctx.Done()
		fmt.Fprint(w, context.Cause(ctx))
	}
}

// A Long request ends when its time is over or the server stops, and can distinguish the two.
func TestLong(t *testing.T) {
	for want, wait := range map[error]time.Duration{context.DeadlineExceeded: time.Millisecond, ErrStopping: time.Hour} {
		began := make(chan string, 1)
		addr, stop := serve(t, map[string]http.HandlerFunc{"/": poller(wait, began)})
		conn := dial(t, addr)
		io.WriteString(conn, post("/", "hello"))
		body := <-began
		if want == ErrStopping {
			stop()
		}
		answer, _ := io.ReadAll(exchange(t, conn, bufio.NewReader(conn), "").Body)
		if body != "hello" || string(answer) != want.Error() {
			t.Errorf("body %q, answer %q, want %v", body, answer, want)
		}
	}
}

// A request is served to the end, within its own time limit, even if its client disconnects.
func TestServedToTheEnd(t *testing.T) {
	noticed, served := make(chan error, 1), make(chan error, 1)
	addr, _ := serve(t, map[string]http.HandlerFunc{"/": func(w http.ResponseWriter, r *http.Request) {
		if deadline, ok := r.Context().Deadline(); !ok || time.Until(deadline) > exchangeTimeout {
			t.Errorf("it has time until %v", deadline)
		}
		ReadBody(w, r, 100)
		ctx, cancel := Long(w, r, time.Hour)
		defer cancel()
		<-clientOf(r).connected.Done()
		noticed <- errors.Join(r.Context().Err(), ctx.Err())
		fmt.Fprint(w, "done")
		served <- http.NewResponseController(w).Flush()
	}})
	for _, end := range []func(*net.TCPConn) error{(*net.TCPConn).Close, (*net.TCPConn).CloseWrite} {
		conn := dial(t, addr)
		io.WriteString(conn, post("/", "x"))
		end(conn.(*net.TCPConn))
		if err := <-noticed; err != nil {
			t.Errorf("its context has ended: %v", err)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
		if answer, err := http.ReadResponse(bufio.NewReader(conn), nil); !errors.Is(err, net.ErrClosed) && (err != nil || answer.StatusCode != 200) {
			t.Errorf("got %+v, %v", answer, err)
		}
	}
}

// A request's context ends in time. It has a deadline unless Redis's own timeouts are well below that.
func TestDeadlineOfAnExchange(t *testing.T) {
	for timeout, want := range map[time.Duration]bool{0: true, maxRedisTimeout: false, maxRedisTimeout + 1: true} {
		synctest.Test(t, func(t *testing.T) {
			f := New(Options{RedisTimeout: timeout})
			ctx, cancel := f.newExchange(httptest.NewRequest("GET", "/", nil), true)
			defer cancel()
			below, cancelBelow := context.WithCancel(ctx)
			defer cancelBelow()
			if _, got := below.Deadline(); got != want {
				t.Errorf("Redis may be silent for %v: there is a deadline: %v, want %v", timeout, got, want)
			}
			if c, _ := below.Value(clientKey{}).(client); !c.admitted {
				t.Errorf("%+v is not admitted", c)
			}
			began := time.Now()
			<-below.Done()
			if took := time.Since(began); took != exchangeTimeout || below.Err() != context.DeadlineExceeded {
				t.Errorf("it ended after %v with %v", took, below.Err())
			}
		})
	}
}

// A request that changes something is finished and answered during a shutdown.
func TestStopFinishesWhatIsUnderWay(t *testing.T) {
	began, goOn := make(chan bool), make(chan bool)
	addr, stop := serve(t, map[string]http.HandlerFunc{"/": func(w http.ResponseWriter, r *http.Request) {
		began <- true
		<-goOn
		fmt.Fprint(w, r.Context().Err())
	}})
	conn := dial(t, addr)
	io.WriteString(conn, post("/", ""))
	<-began
	stopped := make(chan bool)
	go func() { stop(); close(stopped) }()
	until(t, "the listener is closed", func() bool {
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			conn.Close()
		}
		return err != nil
	})
	close(goOn)
	if text, err := io.ReadAll(exchange(t, conn, bufio.NewReader(conn), "").Body); string(text) != "<nil>" || err != nil {
		t.Errorf("answer %q, %v", text, err)
	}
	<-stopped
}

// A handler that never returns does not block a shutdown.
func TestStopLeavesAHungHandler(t *testing.T) {
	began, end := make(chan bool), make(chan bool)
	defer close(end)
	addr, stop := serve(t, map[string]http.HandlerFunc{"/": func(http.ResponseWriter, *http.Request) {
		began <- true
		<-end
	}})
	go http.Get("http://" + addr)
	<-began
	stop()
}

func TestServeWithoutAListener(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	l.Close()
	if err := New(Options{}).Serve(context.Background(), l); !errors.Is(err, net.ErrClosed) {
		t.Errorf("got %v", err)
	}
}

func TestReadBody(t *testing.T) {
	addr, _ := serve(t, map[string]http.HandlerFunc{"/": func(w http.ResponseWriter, r *http.Request) {
		body, err := ReadBody(w, r, 10)
		fmt.Fprintf(w, "%d %v", len(body), err)
	}})
	for _, test := range []struct {
		size int
		want string
	}{{0, "0 <nil>"}, {10, "10 <nil>"}, {11, "0 " + ErrTooLarge.Error()}, {1 << 20, "0 " + ErrTooLarge.Error()}} {
		response, err := http.Post("http://"+addr, "", bytes.NewReader(make([]byte, test.size)))
		check(t, err)
		answer, _ := io.ReadAll(response.Body)
		response.Body.Close()
		if string(answer) != test.want {
			t.Errorf("%d bytes: got %q, want %q", test.size, answer, test.want)
		}
	}
}

func TestOversizedHeader(t *testing.T) {
	addr, _ := serve(t, map[string]http.HandlerFunc{"/": func(http.ResponseWriter, *http.Request) {}})
	bare := len("GET / HTTP/1.1\r\nHost: localhost\r\nX: \r\n\r\n")
	for size, want := range map[int]int{16 << 10: 200, 16<<10 + 1: 431, 20 << 10: 431, 1 << 20: 431} {
		conn := dial(t, addr)
		go fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: localhost\r\nX: %s\r\n\r\n", strings.Repeat("x", size-bare))
		response, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil || response.StatusCode != want {
			t.Errorf("%d bytes: got %+v, %v; want %d", size, response, err, want)
		}
	}
}

// A client that sends slowly or not at all is cut off.
func TestTimes(t *testing.T) {
	s := New(Options{}).http
	if s.ReadHeaderTimeout != headerTimeout || s.ReadTimeout != exchangeTimeout || s.WriteTimeout != 2*exchangeTimeout ||
		s.IdleTimeout != idleTimeout || s.MaxHeaderBytes != maxHeader {
		t.Errorf("%+v", s)
	}
}

// deadlines records the deadlines that a handler sets on its connection.
type deadlines struct {
	http.ResponseWriter
	read, write []time.Time
}

func (d *deadlines) SetReadDeadline(t time.Time) error {
	d.read = append(d.read, t)
	return nil
}

func (d *deadlines) SetWriteDeadline(t time.Time) error {
	d.write = append(d.write, t)
	return nil
}

// A long poll may take its full wait, and then the usual time for the answer.
func TestDeadlines(t *testing.T) {
	began := time.Now()
	d := &deadlines{ResponseWriter: discardResponse{}}
	_, cancel := Long(d, httptest.NewRequest("POST", "/", nil), time.Hour)
	cancel()
	if len(d.read) != 1 || !d.read[0].IsZero() {
		t.Errorf("read deadlines %v", d.read)
	}
	if len(d.write) != 2 || d.write[0].Before(began.Add(time.Hour)) || d.write[1].After(time.Now().Add(exchangeTimeout)) {
		t.Errorf("write deadlines %v", d.write)
	}
}

// brokenWriter is the answer to a client that is gone. Only a write or a flush detects that.
type brokenWriter struct {
	http.ResponseWriter
	write, flush error
}

func (w brokenWriter) Write(p []byte) (int, error) { return len(p), w.write }
func (w brokenWriter) FlushError() error           { return w.flush }

// Write reports an answer that can't be written.
func TestWrite(t *testing.T) {
	inner := httptest.NewRecorder()
	for _, w := range []brokenWriter{{inner, nil, nil}, {inner, io.ErrShortWrite, nil}, {inner, nil, io.ErrClosedPipe}, {inner, io.ErrShortWrite, io.ErrClosedPipe}} {
		if err := Write(w, 200, "text/plain", []byte("text")); err != cmp.Or(w.write, w.flush) {
			t.Errorf("got %v, want %v, or else %v", err, w.write, w.flush)
		}
	}
	if h := inner.Header(); h.Get("Content-Type") != "text/plain" || h.Get("Content-Length") != "4" {
		t.Errorf("headers %v", h)
	}
}

type discardResponse struct{}

func (discardResponse) Header() http.Header         { return http.Header{} }
func (discardResponse) Write(p []byte) (int, error) { return len(p), nil }
func (discardResponse) WriteHeader(int)             {}
