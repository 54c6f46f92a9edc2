package web

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// serve starts a front with the handlers, by path. stop stops it, and returns what Serve returned.
func serve(t *testing.T, handlers map[string]http.HandlerFunc) (addr string, stop func() error) {
	t.Helper()
	return serveOn(t, func(l net.Listener) net.Listener { return l }, handlers)
}

// serveOn is serve on another listener than the usual.
func serveOn(t *testing.T, listener func(net.Listener) net.Listener, handlers map[string]http.HandlerFunc) (addr string, stop func() error) {
	t.Helper()
	var areas []Area
	for path, handler := range handlers {
		areas = append(areas, Area{Patterns: []string{path}, Handler: handler})
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- New(Options{}, areas...).Serve(ctx, listener(l)) }()
	stopped := false
	stop = func() error {
		cancel()
		stopped = true
		return <-served
	}
	t.Cleanup(func() {
		if !stopped {
			stop()
		}
	})
	return l.Addr().String(), stop
}

// poller says with which cause its polls end, and on began that one has begun.
func poller(wait time.Duration, began, ended chan string) http.HandlerFunc {
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
		cause := context.Cause(ctx)
		fmt.Fprint(w, cause)
		ended <- cause.Error()
	}
}

func TestLong(t *testing.T) {
	t.Run("the time is over", func(t *testing.T) {
		began, ended := make(chan string, 1), make(chan string, 1)
		addr, _ := serve(t, map[string]http.HandlerFunc{"/": poller(time.Millisecond, began, ended)})
		response, err := http.Post("http://"+addr, "", strings.NewReader("hello"))
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		answer, _ := io.ReadAll(response.Body)
		if body := <-began; body != "hello" || string(answer) != context.DeadlineExceeded.Error() {
			t.Errorf("body %q, answer %q", body, answer)
		}
	})
	t.Run("the front stops", func(t *testing.T) {
		began, ended := make(chan string, 2), make(chan string, 2)
		addr, stop := serve(t, map[string]http.HandlerFunc{"/": poller(time.Hour, began, ended)})
		answers := make(chan string, 2)
		for range 2 {
			go func() {
				response, err := http.Post("http://"+addr, "", nil)
				if err != nil {
					answers <- err.Error()
					return
				}
				defer response.Body.Close()
				answer, _ := io.ReadAll(response.Body)
				answers <- string(answer)
			}()
		}
		<-began
		<-began
		if err := stop(); err != nil {
			t.Error(err)
		}
		for range 2 {
			if answer := <-answers; answer != ErrStopping.Error() {
				t.Errorf("a poll was answered with %q", answer)
			}
		}
	})
}

// A request is served to its end, within a time of its own, whether its client waits for that or not.
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
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
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

// Who changes something is not stopped half-way, and gets its answer.
func TestStopFinishesWhatIsUnderWay(t *testing.T) {
	began, goOn := make(chan bool), make(chan bool)
	addr, stop := serve(t, map[string]http.HandlerFunc{"/": func(w http.ResponseWriter, r *http.Request) {
		began <- true
		<-goOn
		fmt.Fprint(w, r.Context().Err())
	}})
	answer := make(chan string)
	go func() {
		response, err := http.Get("http://" + addr)
		if err != nil {
			answer <- err.Error()
			return
		}
		defer response.Body.Close()
		text, _ := io.ReadAll(response.Body)
		answer <- string(text)
	}()
	<-began
	stopped := make(chan error)
	go func() { stopped <- stop() }()
	for { // until the listener is closed
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			break
		}
		conn.Close()
	}
	close(goOn)
	if text := <-answer; text != "<nil>" {
		t.Errorf("answer %q", text)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

// A handler that never ends does not keep the front from stopping.
func TestStopLeavesAHungHandler(t *testing.T) {
	began, end := make(chan bool), make(chan bool)
	defer close(end)
	addr, stop := serve(t, map[string]http.HandlerFunc{"/": func(http.ResponseWriter, *http.Request) {
		began <- true
		<-end
	}})
	go http.Get("http://" + addr)
	<-began
	if err := stop(); err != nil {
		t.Error(err)
	}
}

func TestServeWithoutAListener(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
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
		if err != nil {
			t.Fatal(err)
		}
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
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		go fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: localhost\r\nX: %s\r\n\r\n", strings.Repeat("x", size-bare))
		response, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil || response.StatusCode != want {
			t.Errorf("%d bytes: got %+v, %v; want %d", size, response, err, want)
		}
	}
}

// A client that sends slowly, or not at all, is cut off: the times are the server's own.
func TestTimes(t *testing.T) {
	s := New(Options{}).server
	if s.ReadHeaderTimeout != headerTimeout || s.ReadTimeout != exchangeTimeout || s.WriteTimeout != 2*exchangeTimeout ||
		s.IdleTimeout != idleTimeout || s.MaxHeaderBytes != maxHeader {
		t.Errorf("%+v", s)
	}
}

// deadlines notes what a handler's connection is given.
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

// A poll has all the time that it waits, and then that of any answer.
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

type discardResponse struct{}

func (discardResponse) Header() http.Header         { return http.Header{} }
func (discardResponse) Write(p []byte) (int, error) { return len(p), nil }
func (discardResponse) WriteHeader(int)             {}
