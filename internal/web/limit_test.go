package web

import (
	"errors"
	"net"
	"testing"
)

func TestLimit(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l = Limit(l, 2)
	defer l.Close()
	accepted, failed := make(chan net.Conn, 9), make(chan error, 1)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				failed <- err
				return
			}
			accepted <- c
		}
	}()
	for range 3 {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	first, second := <-accepted, <-accepted
	defer second.Close()
	if taken := len(l.(*limited).slots); taken != 2 || len(accepted) > 0 {
		t.Errorf("%d places are taken, and %d more connections accepted", taken, len(accepted))
	}
	if isClosed(first) {
		t.Error("a connection that is open is taken for closed")
	}
	first.Close()
	first.Close() // which frees no other's place
	third := <-accepted
	defer third.Close()
	if taken := len(l.(*limited).slots); taken != 2 {
		t.Errorf("%d places are taken", taken)
	}
	l.Close() // while it waits for a place
	if err := <-failed; !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
}
