package store

import (
	"bufio"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gomodule/redigo/redis"
)

// A call that one server has refused, and whose answer from the next one is lost, may have been done: the refusal is not its error.
func TestRefusedThenLost(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	defer l.Close()
	var conns atomic.Int32
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			first := conns.Add(1) == 1
			go func() {
				defer conn.Close()
				for r := bufio.NewReader(conn); ; {
					switch line, err := r.ReadString('\n'); {
					case err != nil:
						return
					case strings.HasPrefix(line, "EVALSHA") && first:
						conn.Write([]byte("-READONLY You can't write against a read only replica.\r\n"))
					case strings.HasPrefix(line, "EVALSHA"):
						return
					}
				}
			}()
		}
	}()
	pool := &redis.Pool{Dial: func() (redis.Conn, error) { return redis.Dial("tcp", l.Addr().String()) }}
	defer pool.Close()
	_, err = New(pool, DefaultPrefix).Pop(Wanted{Topics: []string{"t"}, N: 1}).Do(t.Context())
	if conns.Load() != 2 || KindOf(err) != NoAnswer {
		t.Errorf("after %d connections: %v, want that it is unknown", conns.Load(), err)
	}
}
