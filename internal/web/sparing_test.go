package web

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	"slices"
	"testing"
	"time"
)

// The first line of a kind is written at once, the next one a minute later with a count, as long as lines
// keep coming.
func TestSparing(t *testing.T) {
	var got []string
	s := NewSparing(func(line string) { got = append(got, line) })
	s.every = time.Hour
	s.Say("a", "a1")
	s.Say("b", "b1")
	s.Say("a", "a2")
	s.again("a")
	s.again("b")
	s.Say("a", "a3")
	s.Say("a", "a4")
	s.again("a")
	s.again("a")
	s.Say("a", "a5")
	s.Say("b", "b2")
	want := []string{"a1", "b1", "a2: once more within 1h", "a4: 2 more times within 1h", "a5", "b2"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	got = nil
	for n := range 2 * maxKinds {
		s.Say(fmt.Sprint("kind ", n), "line")
	}
	if len(got) != maxKinds-1 || len(s.kinds) > maxKinds+1 { // a, b, and one for all further kinds
		t.Errorf("%d lines, %d kinds", len(got), len(s.kinds))
	}
}

// The timer also writes what was suppressed.
func TestSparingTimer(t *testing.T) {
	got := make(chan string, 9)
	s := NewSparing(func(line string) { got <- line })
	s.every = time.Millisecond
	s.Say("a", "first")
	s.Say("a", "second")
	if first, second := <-got, <-got; first != "first" || second != "second: once more within 1ms" && second != "second" {
		t.Errorf("got %q, %q", first, second)
	}
}

// Failed handshakes are counted and rate-limited in the log. Other messages of net/http are logged
// unchanged.
func TestHandshakes(t *testing.T) {
	certificate := httptest.NewTLSServer(nil)
	defer certificate.Close()
	lines := make(chan string, 99)
	l := newLimited(t, 10)
	f := New(Options{Limit: l.Limited, Spare: NewSparing(func(line string) { lines <- line }), TLS: true}, area("/"))
	background(t, f, tls.NewListener(l, certificate.TLS))
	for range 20 {
		conn := l.send("127.0.0.1", "")
		io.WriteString(conn, "nonsense, but long enough")
		io.ReadAll(conn)
	}
	until(t, "all are counted", func() bool { return f.Counts().Refused[refusedHandshake] == 20 })
	if line := <-lines; len(lines) > 0 || line[:35] != "TLS handshake failed with 127.0.0.1" {
		t.Errorf("got %q, and %d more", line, len(lines))
	}

	d := &tls.Dialer{NetDialer: &net.Dialer{}, Config: &tls.Config{InsecureSkipVerify: true}}
	conn, err := d.Dial("tcp", l.Addr().String())
	check(t, err)
	defer conn.Close()
	io.WriteString(conn, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
	l.answered(conn, 200)
	if c := f.Counts(); c.Authenticated != 1 || c.Requests[Answered{"/", 200}] != 1 {
		t.Errorf("%+v", c)
	}
}
