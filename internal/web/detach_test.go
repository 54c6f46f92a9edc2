package web

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"
)

// detaching answers a request with its body, or waits for goOn, or panics, as that says.
func detaching(began, ended chan string, goOn chan bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, _ := ReadBody(w, r, 100)
		w.Header().Set("X", "y")
		Detach(w, r, func(w http.ResponseWriter, r *http.Request, answer func(func())) {
			if string(body) == "panic at once" {
				panic("as asked")
			}
			ctx, cancel := Poll(w, r, time.Hour)
			go func() {
				if string(body) == "wait" {
					began <- "waits"
					select {
					case <-goOn:
					case <-ctx.Done():
						ended <- context.Cause(ctx).Error()
					}
				}
				answer(func() {
					cancel()
					switch string(body) {
					case "panic":
						panic("as asked")
					case "late":
						c := http.NewResponseController(w)
						c.SetWriteDeadline(time.Unix(1, 0))
						if c.Flush() == nil {
							panic("an answer that came too late is written")
						}
					case "teapot":
						w.WriteHeader(http.StatusTeapot)
					case "flush":
						io.WriteString(w, "flushed ")
						if err := http.NewResponseController(w).Flush(); err != nil {
							ended <- err.Error()
						}
						if _, err := io.WriteString(w, "too late"); err == nil {
							ended <- "what can't be written any more is no error"
						}
					}
					fmt.Fprintf(w, "%s %s", r.URL.Path, body)
				})
			}()
		})
	}
}

// exchange sends requests, one in each text, and reads their answers.
func exchange(t *testing.T, conn net.Conn, answers *bufio.Reader, requests ...string) (got []*http.Response) {
	t.Helper()
	if text := strings.Join(requests, ""); text != "" { // else they are sent
		if _, err := io.WriteString(conn, text); err != nil {
			t.Fatal(err)
		}
	}
	for range requests {
		answer, err := http.ReadResponse(answers, nil)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body = io.NopCloser(strings.NewReader(string(text)))
		got = append(got, answer)
	}
	return got
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

// A connection goes on behind a detached answer, whatever was asked, and however early the next
// request comes.
func TestDetachedConnectionGoesOn(t *testing.T) {
	handlers := map[string]http.HandlerFunc{"/a": detaching(nil, nil, nil), "/plain": func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X", "y")
		io.WriteString(w, "plain")
	}}
	certificate := httptest.NewTLSServer(nil)
	defer certificate.Close()
	for _, encrypted := range []bool{false, true} {
		addr, _ := serveOn(t, func(l net.Listener) net.Listener {
			if encrypted {
				return tls.NewListener(l, certificate.TLS)
			}
			return l
		}, handlers)
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		if encrypted {
			conn = tls.Client(conn, &tls.Config{InsecureSkipVerify: true})
		}
		defer conn.Close()
		answers := bufio.NewReader(conn)
		for range 3 {
			expectText(t, exchange(t, conn, answers, post("/a", "hello"))[0], 200, "/a hello")
			expectText(t, exchange(t, conn, answers, post("/a", "teapot"))[0], 418, "/a teapot")
			expectText(t, exchange(t, conn, answers, post("/a", "flush"))[0], 200, "flushed ")
			expectText(t, exchange(t, conn, answers, post("/plain", ""))[0], 200, "plain")
		}
		got := exchange(t, conn, answers, post("/a", "1"), post("/a", "2"), post("/plain", ""), post("/a", "3"))
		for i, want := range []string{"/a 1", "/a 2", "plain", "/a 3"} {
			expectText(t, got[i], 200, want)
		}
	}
}

// However often a connection is detached, and whatever is ahead each time, it is not wrapped more and
// more.
func TestDetachedConnectionDoesNotGrow(t *testing.T) {
	depths := make(chan int, 20)
	depth := func(w http.ResponseWriter, r *http.Request) {
		n := 0
		for conn := r.Context().Value(connKey{}).(net.Conn); ; n++ {
			above, ok := conn.(interface{ NetConn() net.Conn })
			if !ok {
				break
			}
			conn = above.NetConn()
		}
		depths <- n
	}
	detached := detaching(nil, nil, nil)
	addr, _ := serve(t, map[string]http.HandlerFunc{"/": func(w http.ResponseWriter, r *http.Request) { depth(w, r); detached(w, r) }})
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	answers := bufio.NewReader(conn)
	for range 5 {
		exchange(t, conn, answers, post("/", "1"), post("/", "2"))
	}
	filler := "X-Filler: " + strings.Repeat("x", 3000) + "\r\n"
	for i, answer := range exchange(t, conn, answers, post("/", "1", filler), post("/", "2", filler), post("/", "3", filler), post("/", "4", filler)) {
		expectText(t, answer, 200, fmt.Sprint("/ ", i+1))
	}
	for range 14 {
		if n := <-depths; n > 1 {
			t.Fatalf("the connection lies below %d others", n)
		}
	}
}

// A line behind a body, which some clients send, is passed over, as net/http does.
func TestDetachedLineBehindABody(t *testing.T) {
	addr, _ := serve(t, map[string]http.HandlerFunc{"/": detaching(nil, nil, nil)})
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	answers := bufio.NewReader(conn)
	for range 3 {
		expectText(t, exchange(t, conn, answers, post("/", "x")+"\r\n")[0], 200, "/ x")
	}
}

// An answer to a HEAD has no body.
func TestDetachedHead(t *testing.T) {
	addr, _ := serve(t, map[string]http.HandlerFunc{"/": detaching(nil, nil, nil)})
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	io.WriteString(conn, "HEAD / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
	text, err := io.ReadAll(conn)
	if err != nil || !strings.HasPrefix(string(text), "HTTP/1.1 200") || !strings.HasSuffix(string(text), "\r\n\r\n") {
		t.Errorf("got %q, %v", text, err)
	}
}

// A request is answered once, also if start panics when it has seen to an answer.
func TestDetachedAnsweredOnce(t *testing.T) {
	started, answered := make(chan bool), make(chan any)
	addr, stop := serve(t, map[string]http.HandlerFunc{"/": func(w http.ResponseWriter, r *http.Request) {
		Detach(w, r, func(w http.ResponseWriter, r *http.Request, answer func(func())) {
			go func() {
				<-started
				defer func() { answered <- recover() }()
				answer(func() { t.Error("it is answered twice") })
			}()
			panic("as asked")
		})
	}})
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	io.WriteString(conn, post("/", "x"))
	if text, _ := io.ReadAll(conn); len(text) > 0 {
		t.Errorf("got %q", text)
	}
	started <- true
	if p := <-answered; p != nil {
		t.Errorf("panic: %v", p)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// A connection ends behind a detached answer if its client wants that, or a handler has panicked.
func TestDetachedConnectionEnds(t *testing.T) {
	addr, _ := serve(t, map[string]http.HandlerFunc{"/": detaching(nil, nil, nil)})
	for request, want := range map[string]string{
		post("/", "x", "Connection: close\r\n"):                  "/ x",
		"POST / HTTP/1.0\r\nContent-Length: 1\r\n\r\nx":          "/ x",
		post("/", "x", "Connection: close\r\n") + post("/", "y"): "/ x",
		post("/", "panic"):         "",
		post("/", "panic at once"): "",
		post("/", "late"):          "",
	} {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		io.WriteString(conn, request)
		answers := bufio.NewReader(conn)
		if want != "" {
			answer, err := http.ReadResponse(answers, nil)
			if err != nil {
				t.Fatalf("%q: %v", request, err)
			}
			expectText(t, answer, 200, want)
			if !answer.Close {
				t.Errorf("%q: the answer does not say that the connection ends", request)
			}
		}
		if rest, _ := io.ReadAll(answers); len(rest) > 0 {
			t.Errorf("%q: then came %q", request, rest)
		}
	}
}

// A client that hangs up is noticed, whatever it has sent of further requests.
func TestDetachedHangUp(t *testing.T) {
	began, ended := make(chan string, 1), make(chan string, 1)
	addr, _ := serve(t, map[string]http.HandlerFunc{"/": detaching(began, ended, nil)})
	next := post("/", "next")
	for _, c := range []struct{ with, later string }{{"", ""}, {"", "P"}, {"", next}, {next, ""}, {next, next}} {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(conn, post("/", "wait")+c.with)
		<-began
		io.WriteString(conn, c.later)
		conn.Close()
		select {
		case cause := <-ended:
			if cause != context.Canceled.Error() {
				t.Errorf("the poll ended with %q", cause)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("nobody has noticed that the client is gone, which has sent %q with its request and %q later", c.with, c.later)
		}
	}
}

// A client that closes its own side of the connection is there for the answer, and for those to what it
// has sent before that. If it hangs up after all that is noticed.
func TestDetachedHalfClosed(t *testing.T) {
	began, ended, goOn := make(chan string, 1), make(chan string, 1), make(chan bool)
	handlers := map[string]http.HandlerFunc{"/": detaching(began, ended, goOn)}
	certificate := httptest.NewTLSServer(nil)
	defer certificate.Close()
	for _, encrypted := range []bool{false, true} {
		addr, _ := serveOn(t, func(l net.Listener) net.Listener {
			if encrypted {
				return tls.NewListener(l, certificate.TLS)
			}
			return l
		}, handlers)
		for _, then := range []string{"answer", "answer two", "hang up"} {
			conn, err := net.Dial("tcp", addr)
			if err != nil {
				t.Fatal(err)
			}
			if encrypted {
				conn = tls.Client(conn, &tls.Config{InsecureSkipVerify: true})
			}
			defer conn.Close()
			conn.SetDeadline(time.Now().Add(hangBound))
			io.WriteString(conn, post("/", "wait"))
			if then == "answer two" {
				io.WriteString(conn, post("/", "next"))
			}
			<-began
			conn.(interface{ CloseWrite() error }).CloseWrite()
			answers := bufio.NewReader(conn)
			if then != "hang up" { // it is asked whether it is there
				if first, err := answers.Peek(1); err != nil || first[0] != 'H' {
					t.Fatalf("%q, %v", first, err)
				}
			}
			if then == "hang up" {
				conn.Close()
				if cause := <-ended; cause != context.Canceled.Error() {
					t.Errorf("%s: the poll ended with %q", then, cause)
				}
				continue
			}
			goOn <- true
			expectText(t, exchange(t, conn, answers, "")[0], 200, "/ wait")
			if then == "answer two" {
				expectText(t, exchange(t, conn, answers, "")[0], 200, "/ next")
			}
			if rest, err := io.ReadAll(answers); len(rest) > 0 || err != nil {
				t.Errorf("then came %q, %v", rest, err)
			}
		}
	}
}

// However much a client sends while it waits, it is left where it is.
func TestDetachedAheadIsBounded(t *testing.T) {
	const polls = 50
	began, ended := make(chan string), make(chan string, polls)
	addr, _ := serve(t, map[string]http.HandlerFunc{"/": detaching(began, ended, nil)})
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for range polls {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		io.WriteString(conn, post("/", "wait"))
		<-began
		conn.SetWriteDeadline(time.Now().Add(20 * time.Millisecond))
		conn.Write(make([]byte, 1<<20)) // as much as goes out
	}
	runtime.GC()
	runtime.GC() // what pools have kept
	runtime.ReadMemStats(&after)
	if n := (int64(after.HeapAlloc) - int64(before.HeapAlloc)) / polls; n > 4*maxAhead {
		t.Errorf("each holds %d bytes", n)
	}
}

// A connection that rests behind a detached answer is closed when the time for that is over.
func TestDetachedIdle(t *testing.T) {
	f := New(Options{}, Area{Patterns: []string{"/"}, Handler: detaching(nil, nil, nil)})
	f.server.IdleTimeout = time.Millisecond
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error)
	go func() { served <- f.Serve(ctx, l) }()
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(hangBound))
	answers := bufio.NewReader(conn)
	expectText(t, exchange(t, conn, answers, post("/", "x"))[0], 200, "/ x")
	if rest, err := io.ReadAll(answers); len(rest) > 0 || err != nil {
		t.Errorf("then came %q, %v", rest, err)
	}
	cancel()
	if err := <-served; err != nil {
		t.Error(err)
	}
}

// hangBound is when a test gives up: long before a connection that rests is closed.
const hangBound = idleTimeout / 3

// What comes in the meantime is served afterwards, also if it is more than is read ahead.
func TestDetachedAhead(t *testing.T) {
	began, ended, goOn := make(chan string, 1), make(chan string, 1), make(chan bool)
	addr, _ := serve(t, map[string]http.HandlerFunc{"/": detaching(began, ended, goOn)})
	for _, requests := range []int{1, 2, 1000} {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		io.WriteString(conn, post("/", "wait"))
		<-began
		io.WriteString(conn, strings.Repeat(post("/", "next"), requests)+"POST / HT")
		goOn <- true
		answers := bufio.NewReader(conn)
		expectText(t, exchange(t, conn, answers, "")[0], 200, "/ wait")
		for range requests {
			expectText(t, exchange(t, conn, answers, "")[0], 200, "/ next")
		}
		rest, _ := strings.CutPrefix(post("/", "last"), "POST / HT")
		expectText(t, exchange(t, conn, answers, rest)[0], 200, "/ last")
	}
}

// When the front stops, detached requests are answered, and their connections end; those that wait
// for a next request, too.
func TestDetachedStop(t *testing.T) {
	began, ended := make(chan string, 1), make(chan string, 1)
	addr, stop := serve(t, map[string]http.HandlerFunc{"/": detaching(began, ended, nil)})
	var conns []net.Conn
	var answers []*bufio.Reader
	for range 2 {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		conn.SetDeadline(time.Now().Add(hangBound))
		conns, answers = append(conns, conn), append(answers, bufio.NewReader(conn))
		expectText(t, exchange(t, conn, answers[len(answers)-1], post("/", "first"))[0], 200, "/ first")
	}
	io.WriteString(conns[0], post("/", "wait"))
	<-began
	if err := stop(); err != nil {
		t.Error(err)
	}
	if cause := <-ended; cause != ErrStopping.Error() {
		t.Errorf("the poll ended with %q", cause)
	}
	answer, err := http.ReadResponse(answers[0], nil)
	if err != nil || !answer.Close {
		t.Fatalf("%+v, %v", answer, err)
	}
	expectText(t, answer, 200, "/ wait")
	for i := range answers {
		if rest, err := io.ReadAll(answers[i]); len(rest) > 0 || err != nil {
			t.Errorf("then came %q, %v", rest, err)
		}
	}
}

// What can't be detached is served all the same.
func TestNotDetached(t *testing.T) {
	f := New(Options{}, Area{Patterns: []string{"/"}, Handler: detaching(nil, nil, nil)})
	w := httptest.NewRecorder()
	f.ServeHTTP(w, httptest.NewRequest("POST", "http://localhost/a", strings.NewReader("x")))
	if w.Body.String() != "/a x" {
		t.Errorf("got %q", w.Body)
	}
}

// A detached request holds neither its request line nor its header.
func TestDetachedHoldsLittle(t *testing.T) {
	const polls = 200
	began, ended := make(chan string), make(chan string, polls)
	addr, _ := serve(t, map[string]http.HandlerFunc{"/": detaching(began, ended, nil)})
	request := post("/?"+strings.Repeat("q", 7<<10), "wait", "X-Filler: "+strings.Repeat("x", 7<<10)+"\r\n")
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for range polls {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		io.WriteString(conn, request)
		<-began
	}
	runtime.GC()
	runtime.GC() // what pools have kept
	runtime.ReadMemStats(&after)
	if n := (int64(after.HeapAlloc) - int64(before.HeapAlloc)) / polls; n > 6<<10 {
		t.Errorf("each holds %d bytes", n)
	}
}

// An answer that never comes does not keep the front from stopping.
func TestDetachedStopLeavesAHungAnswer(t *testing.T) {
	began := make(chan func(func()), 1)
	addr, stop := serve(t, map[string]http.HandlerFunc{"/": func(w http.ResponseWriter, r *http.Request) {
		ReadBody(w, r, 100)
		Detach(w, r, func(_ http.ResponseWriter, _ *http.Request, answer func(func())) { began <- answer })
	}})
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	io.WriteString(conn, post("/", "x"))
	answer := <-began
	if err := stop(); err != nil {
		t.Error(err)
	}
	answer(func() {})
}
