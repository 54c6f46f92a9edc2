package store

import (
	"context"

	"github.com/gomodule/redigo/redis"
)

// window is how many calls of a stream are under way at a time: when Redis is
// done with one it finds the next, while the client writes and reads.
const window = 2

// stream is calls of one script, one after the other on one connection.
type stream struct {
	script  *redis.Script
	n       int
	args    func(i int) []any
	receive func(redis.Conn) (any, error)
	// answered is told the answer to call i, unless that is an error, and
	// reports whether more calls should be sent.
	answered func(i int, reply any) (more bool)
}

// stream makes the calls. It returns the first error, of whichever call; what was under way by then is still
// answered, and nothing more is sent. That goes for the end of ctx, too.
func (s *Store) stream(ctx context.Context, calls stream) error {
	conn, err := s.pool.GetContext(ctx)
	if err != nil {
		return causeOf(ctx, err)
	}
	defer conn.Close()
	var underWay []int
	more, failed := true, error(nil)
	for next := 0; ; {
		for more && failed == nil && next < calls.n && len(underWay) < window {
			if failed = ctx.Err(); failed == nil {
				failed = send(conn, calls.script.SendHash, calls.args(next))
				underWay = append(underWay, next)
				next++
			}
		}
		if len(underWay) == 0 || conn.Err() != nil {
			return failed
		}
		i := underWay[0]
		underWay = underWay[1:]
		reply, err := calls.receive(conn)
		if isNoScript(err) {
			if err = send(conn, calls.script.Send, calls.args(i)); err == nil {
				underWay = append(underWay, i)
				continue
			}
		}
		if err == nil {
			more = calls.answered(i, reply) && more
		} else if failed == nil {
			failed = causeOf(ctx, err)
		}
	}
}

func send(conn redis.Conn, send func(redis.Conn, ...any) error, args []any) error {
	if err := send(conn, args...); err != nil {
		return err
	}
	return conn.Flush()
}
