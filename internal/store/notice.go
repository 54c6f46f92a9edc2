package store

import (
	"context"
	"time"

	"github.com/gomodule/redigo/redis"
)

// silence is how long a channel may say nothing before its connection is taken for dead.
const silence = time.Minute

// Listen calls notice whenever a job is pushed or rescheduled that falls due
// before all others, with the time until then, and once with 0 when it has begun to listen:
// what was said before is not heard. It returns when the connection ends, ctx is done, or
// nothing was said for a minute.
func (s *Store) Listen(ctx context.Context, notice func(in time.Duration)) error {
	conn, err := s.conns.Dial(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	channel := redis.PubSubConn{Conn: conn}
	if err := channel.Subscribe(s.keys.FirstDue()); err != nil {
		return err
	}
	for {
		switch said := channel.ReceiveWithTimeout(silence).(type) {
		case error:
			return said
		case redis.Subscription:
			notice(0)
		case redis.Message:
			ms, err := redis.Int64(said.Data, nil)
			if err != nil {
				ms = 0 // somebody else's words; a look does no harm
			}
			notice(time.Duration(max(ms, 0)) * time.Millisecond)
		}
	}
}
