package web

import (
	"net"
	"testing"
)

// A connection that its client has closed takes nothing any more; one of which only the client's side is
// closed does.
func TestIsRead(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for name, end := range map[string]func(*net.TCPConn) error{"closed": (*net.TCPConn).Close, "half closed": (*net.TCPConn).CloseWrite} {
		other, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
		conn, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		end(other.(*net.TCPConn))
		conn.Read(make([]byte, 1)) // until that is known
		conn.Write([]byte("H"))
		if got, want := isRead(conn), name == "half closed"; got != want {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
		if name == "closed" && untilBroken(conn) == nil {
			t.Error("it is not broken")
		}
	}
	here, there := net.Pipe()
	defer here.Close()
	defer there.Close()
	if isRead(here) {
		t.Error("of what is no connection of the system's nothing is known")
	}
}
