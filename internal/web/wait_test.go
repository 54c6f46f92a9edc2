package web

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
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
)

// waiting answers with the request's body. If the body is "wait", it first reports on began, waits, and reports on
// ended how the wait ended.
func waiting(began chan bool, ended chan string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, _ := ReadBody(w, r, 100)
		w.Header().Set("X", "y")
		if string(body) == "wait" {
			var cause error
			Wait(w, r, time.Hour, func(ctx context.Context) error {
				began <- true
				<-ctx.Done()
				cause = context.Cause(ctx)
				return ctx.Err()
			})
			if Gone(r) {
				cause = errors.New("gone")
			}
			ended <- fmt.Sprint(cause)
		}
		fmt.Fprintf(w, "%s %s", r.URL.Path, body)
	}
}

// exchange sends a request, if not empty, and reads the answer.
func exchange(t *testing.T, conn net.Conn, answers *bufio.Reader, request string) *http.Response {
	t.Helper()
	if request != "" { // this side may be closed
		_, err := io.WriteString(conn, request)
		check(t, err)
	}
	answer, err := http.ReadResponse(answers, nil)
	check(t, err)
	text, err := io.ReadAll(answer.Body)
	check(t, err)
	answer.Body = io.NopCloser(bytes.NewReader(text))
	return answer
}

func post(path, body string, header ...string) string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n%s\r\n%s", path, len(body), strings.Join(header, ""), body)
}

func expectText(t *testing.T, answer *http.Response, status int, want string) {
	t.Helper()
	text, _ := io.ReadAll(answer.Body)
	if answer.StatusCode != status || string(text) != want || answer.Header.Get("X") != "y" || answer.Header.Get("Date") == "" {
		t.Errorf("got %s, %q, %v; want %d, %q", answer.Status, text, answer.Header, status, want)
	}
}

// dialWaiting sends the request "wait" and returns its connection and a reader.
func dialWaiting(t *testing.T, addr string, config *tls.Config, began chan bool) (net.Conn, *bufio.Reader) {
	t.Helper()
	conn := dial(t, addr)
	if config != nil {
		conn = tls.Client(conn, config)
	}
	io.WriteString(conn, post("/", "wait"))
	<-began
	return conn, bufio.NewReader(conn)
}

// hangBound is the time limit of a test, much shorter than the timeout of an idle connection.
const hangBound = idleTimeout / 3

// A client that disconnects while waiting, or closes only its side, is gone at once. In the latter case it
// reads the answer.
func TestWaitHangUp(t *testing.T) {
	certificate := httptest.NewTLSServer(nil)
	defer certificate.Close()
	for name, c := range map[string]struct {
		encrypted, half bool
		hangUp          func(net.Conn) error
	}{
		"close":       {false, false, net.Conn.Close},
		"reset":       {false, false, func(c net.Conn) error { return errors.Join(c.(*net.TCPConn).SetLinger(0), c.Close()) }},
		"half":        {false, true, func(c net.Conn) error { return c.(*net.TCPConn).CloseWrite() }},
		"TLS":         {true, false, net.Conn.Close},
		"half of TLS": {true, true, func(c net.Conn) error { return c.(*tls.Conn).CloseWrite() }},
		"below TLS":   {true, true, func(c net.Conn) error { return c.(*tls.Conn).NetConn().(*net.TCPConn).CloseWrite() }},
	} {
		t.Run(name, func(t *testing.T) {
			began, ended := make(chan bool, 1), make(chan string, 1)
			var config *tls.Config
			addr, _ := serveOn(t, func(l net.Listener) net.Listener {
				if c.encrypted {
					config = &tls.Config{InsecureSkipVerify: true}
					return tls.NewListener(l, certificate.TLS)
				}
				return l
			}, map[string]http.HandlerFunc{"/": waiting(began, ended)})
			conn, answers := dialWaiting(t, addr, config, began)
			check(t, c.hangUp(conn))
			if cause := <-ended; cause != "gone" {
				t.Errorf("the wait ended with %q", cause)
			}
			if c.half {
				expectText(t, exchange(t, conn, answers, ""), 200, "/ wait")
			}
		})
	}
}

// When the server stops, waiting requests are answered and their connections closed, like idle ones.
func TestWaitStop(t *testing.T) {
	began, ended := make(chan bool, 1), make(chan string, 1)
	addr, stop := serve(t, map[string]http.HandlerFunc{"/": waiting(began, ended)})
	resting := dial(t, addr)
	rest := bufio.NewReader(resting)
	expectText(t, exchange(t, resting, rest, post("/", "first")), 200, "/ first")
	conn, answers := dialWaiting(t, addr, nil, began)
	stop()
	if cause := <-ended; cause != ErrStopping.Error() {
		t.Errorf("the wait ended with %q", cause)
	}
	answer := exchange(t, conn, answers, "")
	expectText(t, answer, 200, "/ wait")
	if !answer.Close {
		t.Errorf("%+v", answer)
	}
	for _, r := range []io.Reader{rest, answers} {
		if rest, err := io.ReadAll(r); len(rest) > 0 || err != nil {
			t.Errorf("then came %q, %v", rest, err)
		}
	}
}

// A shutdown takes longer than stopWait only while requests are being answered, and at most stopMore longer.
func TestPatience(t *testing.T) {
	for answered, want := range map[time.Duration]time.Duration{
		0: stopWait, stopWait - stopStep: stopWait, stopWait + 4*stopStep: stopWait + 5*stopStep, time.Hour: stopWait + stopMore,
	} {
		synctest.Test(t, func(t *testing.T) {
			f := New(Options{})
			f.counter.serving.Store(1 << 20)
			ctx, cancel := context.WithCancel(t.Context())
			began := time.Now()
			go f.losePatience(ctx, cancel)
			for waited := stopStep / 2; waited < answered && ctx.Err() == nil; waited += stopStep {
				time.Sleep(time.Until(began.Add(waited)))
				f.counter.serving.Add(-1)
			}
			<-ctx.Done()
			if got := time.Since(began); got < want || got > want+stopStep {
				t.Errorf("some are answered for %v: it ends after %v, want %v", answered, got, want)
			}
		})
	}
}

// At most MaxWaiting requests wait at a time.
func TestTooManyWait(t *testing.T) {
	f := New(Options{})
	r := httptest.NewRequest("GET", "/", nil).WithContext(f.base)
	for waiting, want := range map[int64]error{MaxWaiting - 1: io.EOF, MaxWaiting: ErrCrowded} {
		f.counter.waiting.Store(waiting)
		if err := Wait(httptest.NewRecorder(), r, time.Hour, func(context.Context) error { return io.EOF }); err != want {
			t.Errorf("beside %d: got %v, want %v", waiting, err, want)
		}
		if n := f.counter.waiting.Load(); n != waiting {
			t.Errorf("then %d wait", n)
		}
	}
}
