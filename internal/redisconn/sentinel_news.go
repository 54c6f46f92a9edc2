package redisconn

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

// The sentinel that leads a failover names the new master from +promoted-slave on, and says +switch-master when the
// other replicas follow it, which may take long. The other sentinels name it from +switch-master on.
var failedOver = []any{"+promoted-slave", "+switch-master"}

// listen subscribes to failovers, at one sentinel after the other. If no sentinel lets us subscribe, the regular checks suffice.
func (s *Sentinel) listen(ctx context.Context, news chan<- struct{}) {
	deaf := map[string]bool{}
	for ctx.Err() == nil {
		sentinels := s.inTurn()
		for _, sentinel := range sentinels {
			if !deaf[sentinel] {
				deaf[sentinel] = strings.HasPrefix(s.listenAt(ctx, sentinel, news).Error(), "NOPERM")
			}
		}
		if !slices.ContainsFunc(sentinels, func(sentinel string) bool { return !deaf[sentinel] }) {
			return
		}
		select {
		case <-time.After(s.every):
		case <-ctx.Done():
		}
	}
}

// listenAt returns why that sentinel tells us nothing any more. News is also that it begins to: we have heard
// nothing of what came before.
func (s *Sentinel) listenAt(ctx context.Context, sentinel string, news chan<- struct{}) error {
	conn, err := s.connect(ctx, sentinel)
	if err != nil {
		return err
	}
	conn.Send("SUBSCRIBE", failedOver...)
	conn.Flush()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go keepAlive(ctx, conn, s.every)
	for {
		reply, err := redis.Values(redis.ReceiveWithTimeout(conn, s.every+askWithin))
		if err != nil {
			return err
		}
		var kind string
		redis.Scan(reply, &kind)
		switch kind {
		case "pong":
			continue
		case "message":
			s.rank(sentinel, true) // the others may not know yet
		}
		select {
		case news <- struct{}{}:
		default: // there is some
		}
	}
}

// keepAlive asks for a sign of life until ctx ends, and the connection with it.
func keepAlive(ctx context.Context, conn redis.Conn, every time.Duration) {
	defer conn.Close()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			conn.Send("PING")
			conn.Flush()
		case <-ctx.Done():
			return
		}
	}
}
