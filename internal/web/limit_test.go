package web

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	stdlog "log"
	"net"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// limited is a Limited listener whose connections the test accepts in the order in which they were dialed.
type limited struct {
	*Limited
	t       *testing.T
	dropped []string
}

func newLimited(t *testing.T, most int) *limited {
	t.Helper()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	t.Cleanup(func() { inner.Close() })
	l := &limited{t: t}
	l.Limited = Limit(inner, most, func(address string) { l.dropped = append(l.dropped, address) })
	return l
}

// connect dials from the given address.
func (l *limited) connect(from string) net.Conn {
	l.t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	conn, err := d.Dial("tcp", l.Addr().String())
	check(l.t, err)
	l.t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(hangBound))
	return conn
}

// dial connects from the given address and accepts the connection.
func (l *limited) dial(from string) *limitedConn {
	l.t.Helper()
	l.connect(from)
	conn, err := l.Accept()
	check(l.t, err)
	return conn.(*limitedConn)
}

func (l *limited) expect(authenticated, unauthenticated int, dropped ...string) {
	l.t.Helper()
	if a, u := l.authenticated, l.pending; a != authenticated || u != unauthenticated || !slices.Equal(l.dropped, dropped) {
		l.t.Errorf("%d authenticated and %d unauthenticated, dropped %q; want %d, %d, %q", a, u, l.dropped, authenticated, unauthenticated, dropped)
	}
	l.dropped = nil
}

// A new connection replaces the oldest unauthenticated connection of the address with most of them.
// Authenticated connections are replaced only while idle, and never take the reserved part.
func TestLimit(t *testing.T) {
	l := newLimited(t, 4)
	first := l.dial("127.0.0.3")
	crowd := []*limitedConn{l.dial("127.0.0.2"), l.dial("127.0.0.2"), l.dial("127.0.0.2")}
	l.expect(0, 4)
	l.dial("127.0.0.3")
	l.expect(0, 4, "127.0.0.2")
	for i, c := range append(crowd, first) {
		if gone := !c.gone; gone != (i > 0) {
			t.Errorf("connection %d: gone is %v", i, c.gone)
		}
	}
	if _, err := crowd[0].Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("it is not closed: %v", err)
	}

	for _, c := range []*limitedConn{first, crowd[1], crowd[2]} {
		for range 2 { // the second call changes nothing
			if !c.authenticate() {
				t.Error("it is not authenticated")
			}
		}
	}
	l.expect(3, 1)
	last := l.dial("127.0.0.4")
	l.expect(3, 1, "127.0.0.3")
	if last.authenticate() {
		t.Error("authenticated connections take the reserved part")
	}
	first.setIdle(false) // no longer idle
	first.setIdle(true)
	first.setIdle(true)
	crowd[1].setIdle(true)
	first.setIdle(false) // the next request has begun
	first.setIdle(true)
	if n := l.idle.Len(); n != 2 {
		t.Errorf("%d rest", n)
	}
	if crowd[2].setIdle(false); l.idle.Len() != 2 {
		t.Error("one idle that does not")
	}
	if !last.authenticate() || first.gone || !crowd[1].gone {
		t.Error("the one that has rested the longest was not displaced")
	}
	l.expect(3, 0)
	for range 2 { // closing twice frees one connection
		last.Close()
		first.Close()
		crowd[1].Close()
	}
	l.expect(1, 0)
	if last.setIdle(true); l.idle.Len() != 0 {
		t.Error("a closed connection idle")
	}
	if len(l.unauthenticated) != 0 || len(l.largest) != 0 {
		t.Errorf("addresses are left: %v", l.unauthenticated)
	}
}

// An IPv6 network counts as one address.
func TestNetworkOf(t *testing.T) {
	for at, want := range map[string]string{
		"192.0.2.7:80": "192.0.2.7", "[::ffff:192.0.2.7]:80": "192.0.2.7",
		"[2001:db8:1:2:3:4:5:6]:80": "2001:db8:1:2::", "[fe80::1%eth0]:80": "fe80::",
		"@": "invalid IP",
	} {
		if got := networkOf(at).String(); got != want {
			t.Errorf("%s: got %s, want %s", at, got, want)
		}
	}
}

// failing is a listener whose Accept fails a number of times.
type failing struct {
	net.Listener
	times int
}

func (f *failing) Accept() (net.Conn, error) {
	if f.times--; f.times >= 0 {
		return nil, &net.OpError{Op: "accept", Err: syscall.EMFILE}
	}
	return f.Listener.Accept()
}

// A failing Accept does not use up the limit.
func TestLimitWhileAcceptFails(t *testing.T) {
	l := newLimited(t, 1)
	l.Listener = &failing{l.Listener, 3}
	for range 3 {
		if _, err := l.Accept(); err == nil {
			t.Fatal("it does not fail")
		}
	}
	l.expect(0, 0)
	l.dial("127.0.0.1")
	l.expect(0, 1)
}

// crowd is a server with a token, few connections, an open area, and others.
func crowd(t *testing.T, most int, others ...Area) (*limited, *Server) {
	l := newLimited(t, most)
	l.Limited.dropped = nil
	open := Area{Open: true, Patterns: []string{"/healthz"}, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok") })}
	f := New(Options{Token: token, Limit: l.Limited}, append(others, area("/x"), open)...)
	background(t, f, l)
	return l, f
}

const token = "0123456789abcdef"

// send sends a request on a new connection.
func (l *limited) send(from, path string, header ...string) net.Conn {
	l.t.Helper()
	conn := l.connect(from)
	if path != "" {
		fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: localhost\r\n%s\r\n", path, strings.Join(header, ""))
	}
	return conn
}

func (l *limited) answered(conn net.Conn, status int) *http.Response {
	l.t.Helper()
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil || answer.StatusCode != status {
		l.t.Fatalf("got %+v, %v; want %d", answer, err, status)
	}
	io.Copy(io.Discard, answer.Body)
	return answer
}

const bearer = "Authorization: Bearer " + token + "\r\n"

// However many unauthenticated connections are opened, and whatever they do, probes and clients with the
// token are served, and authenticated connections stay open.
func TestUnauthenticatedStarveNobody(t *testing.T) {
	const most = 50
	l, f := crowd(t, most)
	known := l.send("127.0.0.1", "/x", bearer)
	if l.answered(known, 200).Close {
		t.Error("the connection of whoever has the token is closed")
	}
	for range 2 * most { // send a request, then stay idle
		if !l.answered(l.send("127.0.0.2", "/healthz"), 200).Close {
			t.Fatal("a stranger's connection stays open")
		}
	}
	for range 2 * most { // send nothing
		l.send("127.0.0.2", "")
	}
	for range 2 * most { // send half a request
		fmt.Fprintf(l.send("127.0.0.2", ""), "GET /healthz HTTP/1.1\r\n")
	}
	for _, from := range []string{"127.0.0.1", "127.0.0.2"} { // the attacker may be behind the same proxy
		l.answered(l.send(from, "/healthz"), 200)
		l.answered(l.send(from, "/x", bearer), 200)
	}
	fmt.Fprintf(known, "GET /x HTTP/1.1\r\nHost: localhost\r\n%s\r\n", bearer)
	l.answered(known, 200)
	if c := f.Counts(); c.Authenticated != 3 || c.Authenticated+c.Unauthenticated > most || c.Refused[refusedConnection] < 2*most {
		t.Errorf("%+v", c)
	}
}

// When all connections for authenticated clients are in use, a further client gets 503 and probes are
// still served. An idle connection is closed to make room.
func TestAuthenticatedStarveNoProbe(t *testing.T) {
	began := make(chan string, 9)
	l, f := crowd(t, 4, Area{Patterns: []string{"/wait"}, Handler: poller(time.Hour, began)})
	idle := l.send("127.0.0.1", "/x", bearer)
	l.answered(idle, 200)
	redistest.Until(t, "it is idle", func() bool { // shortly after its answer
		l.Limited.mu.Lock()
		defer l.Limited.mu.Unlock()
		return l.Limited.idle.Len() == 1
	})
	for range 3 {
		l.send("127.0.0.1", "/wait", bearer)
		redistest.Receive(t, began)
	}
	if rest, err := io.ReadAll(idle); len(rest) > 0 || err != nil {
		t.Errorf("the idle connection stays open: %q, %v", rest, err)
	}
	if !l.answered(l.send("127.0.0.1", "/x", bearer), 503).Close {
		t.Error("the connection stays open")
	}
	l.answered(l.send("127.0.0.1", "/healthz"), 200)
	if c := f.Counts(); c.Authenticated != 3 || c.Refused[refusedConnection] == 0 || c.Requests[Answered{"/x", 503}] != 1 {
		t.Errorf("%+v", c)
	}
}

// The server does not wait for the rest of an unauthenticated client's body.
func TestUnauthenticatedLongBody(t *testing.T) {
	l, _ := crowd(t, 10)
	for _, path := range []string{"/x", "/healthz"} {
		conn := l.send("127.0.0.1", path, "Content-Length: 1000\r\n")
		answers := bufio.NewReader(conn)
		if _, err := http.ReadResponse(answers, nil); err != nil {
			t.Fatal(err)
		}
		conn.SetDeadline(time.Now().Add(exchangeTimeout / 2))
		if _, err := io.ReadAll(answers); err != nil {
			t.Errorf("%s: the connection stays open: %v", path, err)
		}
	}
}

// The limit leaves files for Redis and the logs.
func TestAllowedConns(t *testing.T) {
	for files, want := range map[uint64]int{0: MaxConns, 256: 192, 1024: 768, 4096: 3072, 65536: MaxConns, 1<<64 - 1: MaxConns} {
		if got := connsWith(files); got != want {
			t.Errorf("with %d files: %d, want %d", files, got, want)
		}
	}
}

// Failures to accept are one line a minute.
func TestAcceptErrorsAreSpared(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	l.Close()
	var log strings.Builder
	var lines []string
	s := New(Options{Log: stdlog.New(&log, "", 0), Spare: NewSparing(func(line string) { lines = append(lines, line) })})
	s.Serve(t.Context(), &failing{l, 4})
	if len(lines) != 1 || !strings.HasPrefix(lines[0], "Accept error: ") || log.Len() > 0 {
		t.Errorf("logged are %q and %q", lines, &log)
	}
}
