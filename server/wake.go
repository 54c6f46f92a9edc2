package server

import (
	"context"
	"time"
)

// relisten is how long to wait after listening has failed. The ticker finds
// meanwhile what is not heard.
const relisten = time.Second

// listen passes on, until ctx is done, when a job was pushed that falls due before all
// others. earlier holds one such time; a later one does not replace it.
func (s *Server) listen(ctx context.Context, earlier chan time.Time) {
	for ctx.Err() == nil {
		s.store.Listen(ctx, func(in time.Duration) { keepEarlier(earlier, time.Now().Add(in)) })
		select {
		case <-time.After(relisten):
		case <-ctx.Done():
		}
	}
}

// keepEarlier puts t into the channel of one place, unless an earlier time is in it.
func keepEarlier(c chan time.Time, t time.Time) {
	for {
		select {
		case c <- t:
			return
		case there := <-c:
			if there.Before(t) {
				t = there
			}
		}
	}
}
