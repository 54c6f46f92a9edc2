package web

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// limited is a listener of at most so many connections, each of which the test has accepted in the order
// in which it was dialed.
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

// connect connects from there.
func (l *limited) connect(from string) net.Conn {
	l.t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	conn, err := d.Dial("tcp", l.Addr().String())
	check(l.t, err)
	l.t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(hangBound))
	return conn
}

// dial connects from there, and accepts the connection.
func (l *limited) dial(from string) *limitedConn {
	l.t.Helper()
	l.connect(from)
	conn, err := l.Accept()
	check(l.t, err)
	return conn.(*limitedConn)
}

func (l *limited) expect(known, strangers int, dropped ...string) {
	l.t.Helper()
	if k, s := l.known, l.waiting; k != known || s != strangers || !slices.Equal(l.dropped, dropped) {
		l.t.Errorf("%d known and %d strangers, dropped %q; want %d, %d, %q", k, s, l.dropped, known, strangers, dropped)
	}
	l.dropped = nil
}

// A stranger makes room for a new connection: the oldest of the address that has most. Whoever is known
// does so only while he rests, and some places are never for the known.
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
		for range 2 { // the second time it is known already
			if !c.know() {
				t.Error("it is not known")
			}
		}
	}
	l.expect(3, 1)
	last := l.dial("127.0.0.4")
	l.expect(3, 1, "127.0.0.3")
	if last.know() {
		t.Error("there is room for as many known connections as there are in all")
	}
	first.rest(false) // it does not
	first.rest(true)
	first.rest(true)
	crowd[1].rest(true)
	first.rest(false) // there is a next request
	first.rest(true)
	if n := l.resting.Len(); n != 2 {
		t.Errorf("%d rest", n)
	}
	if crowd[2].rest(false); l.resting.Len() != 2 {
		t.Error("one rests that does not")
	}
	if !last.know() || first.gone || !crowd[1].gone {
		t.Error("the one that has rested the longest was not displaced")
	}
	l.expect(3, 0)
	for range 2 { // a place is given away once
		last.Close()
		first.Close()
		crowd[1].Close()
	}
	l.expect(1, 0)
	if last.rest(true); l.resting.Len() != 0 {
		t.Error("a closed connection rests")
	}
	if len(l.strangers) != 0 || len(l.largest) != 0 {
		t.Errorf("addresses are left: %v", l.strangers)
	}
}

// Of IPv6 a network counts as one address, since nobody has only one.
func TestNetworkOf(t *testing.T) {
	for at, want := range map[string]string{
		"192.0.2.7:80": "192.0.2.7", "[::ffff:192.0.2.7]:80": "192.0.2.7",
		"[2001:db8:1:2:3:4:5:6]:80": "2001:db8:1:2::", "[fe80::1%eth0]:80": "fe80::",
		"@": "invalid IP",
	} {
		if got := addressOf(addressed{at: at}).String(); got != want {
			t.Errorf("%s: got %s, want %s", at, got, want)
		}
	}
}

type addressed struct {
	net.Conn
	at string
}

func (a addressed) RemoteAddr() net.Addr { return a }
func (a addressed) Network() string      { return "tcp" }
func (a addressed) String() string       { return a.at }

// failing is a listener that fails so often.
type failing struct {
	net.Listener
	times int
}

func (f *failing) Accept() (net.Conn, error) {
	if f.times--; f.times >= 0 {
		return nil, errors.New("too many open files")
	}
	return f.Listener.Accept()
}

// A failure to accept costs no place.
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

// crowd is a front with a token, few connections, an area that tells nothing, and others.
func crowd(t *testing.T, most int, others ...Area) (*limited, *Front) {
	l := newLimited(t, most)
	l.Limited.dropped = nil
	open := Area{Open: true, Patterns: []string{"/healthz"}, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok") })}
	f := New(Options{Token: token, Limit: l.Limited}, append(others, area("/x"), open)...)
	background(t, f, l)
	return l, f
}

const token = "0123456789abcdef"

// send sends a request on a connection of its own.
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

// However many connections strangers open, and whatever they do with them, probes and whoever has the
// token are served; and who is known keeps his connection.
func TestStrangersStarveNobody(t *testing.T) {
	const most = 50
	l, f := crowd(t, most)
	known := l.send("127.0.0.1", "/x", bearer)
	if l.answered(known, 200).Close {
		t.Error("the connection of whoever has the token is closed")
	}
	for range 2 * most { // ask, and rest
		if !l.answered(l.send("127.0.0.2", "/healthz"), 200).Close {
			t.Fatal("a stranger's connection stays open")
		}
	}
	for range 2 * most { // do nothing at all
		l.send("127.0.0.2", "")
	}
	for range 2 * most { // send half a request
		fmt.Fprintf(l.send("127.0.0.2", ""), "GET /healthz HTTP/1.1\r\n")
	}
	for _, from := range []string{"127.0.0.1", "127.0.0.2"} { // it may be behind the same proxy
		l.answered(l.send(from, "/healthz"), 200)
		l.answered(l.send(from, "/x", bearer), 200)
	}
	fmt.Fprintf(known, "GET /x HTTP/1.1\r\nHost: localhost\r\n%s\r\n", bearer)
	l.answered(known, 200)
	if c := f.Counts(); c.Known != 3 || c.Known+c.Strangers > most || c.Refused[refusedStranger] < 2*most {
		t.Errorf("%+v", c)
	}
}

// When all places for the known are in use a further one is told so, and probes are served; one that
// rests makes room.
func TestKnownStarveNoProbe(t *testing.T) {
	began := make(chan string, 9)
	l, f := crowd(t, 4, Area{Patterns: []string{"/wait"}, Handler: poller(time.Hour, began)})
	resting := l.send("127.0.0.1", "/x", bearer)
	l.answered(resting, 200)
	for range 3 {
		l.send("127.0.0.1", "/wait", bearer)
		<-began
	}
	if rest, err := io.ReadAll(resting); len(rest) > 0 || err != nil {
		t.Errorf("who rests keeps his place: %q, %v", rest, err)
	}
	if !l.answered(l.send("127.0.0.1", "/x", bearer), 503).Close {
		t.Error("the connection stays open")
	}
	l.answered(l.send("127.0.0.1", "/healthz"), 200)
	if c := f.Counts(); c.Known != 3 || c.Refused[refusedStranger] == 0 || c.Requests[Answered{"/x", 503}] != 1 {
		t.Errorf("%+v", c)
	}
}

// What a stranger sends behind his request is not waited for.
func TestStrangerWithALongBody(t *testing.T) {
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
