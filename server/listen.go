package server

import (
	"context"
	"fmt"
	"time"
)

const (
	// firstPause and lastPause bound the time before the next connection
	// after one that did not last; after one that did there is none.
	firstPause, lastPause = 10 * time.Millisecond, time.Second
	// silence is after how long without a message we ask whether the connection is alive.
	silence = 5 * time.Second
	// askAgain is how long to wait after Redis has refused the channel.
	askAgain = 10 * time.Second
)

// listen sets the alarm, until ctx is done, to when a job was pushed that falls due
// before all others. What was published while there was no connection is lost: each
// new one asks for a pass at once, and as long as there is none, passes are more frequent.
func (s *Server) listen(ctx context.Context, alarm *alarm) {
	s.missPushes(alarm)
	defer s.missesPushes.Store(false)
	refusal := newOutages(s.log)
	for pause := time.Duration(0); ctx.Err() == nil; {
		began := time.Now()
		s.subscribe(ctx, alarm, refusal)
		if time.Since(began) > lastPause {
			pause = 0
			continue
		}
		pause = min(max(2*pause, firstPause), lastPause)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
}

// subscribe listens on one connection until it breaks or ctx is done.
func (s *Server) subscribe(ctx context.Context, alarm *alarm, refusal *outages) {
	channel := s.store.Keys().FirstDue()
	deaf := fmt.Sprintf("Nothing can be heard on %s, jobs may come late by up to %v", channel, s.polledInterval())
	sub, err := s.store.Subscribe(ctx, silence, channel)
	if err != nil {
		return // the passes will say so
	}
	defer sub.Close()
	defer context.AfterFunc(ctx, func() { sub.Close() })()
	defer s.missPushes(alarm)
	s.listener.Store(sub)
	for {
		event, err := sub.Receive()
		if err != nil {
			return
		}
		switch {
		case event.Refused != nil:
			s.missPushes(alarm)
			refusal.report(deaf, s.advise(event.Refused, "+subscribe"))
			time.AfterFunc(s.askAgain, func() { sub.Add(channel) })
		case event.Subscribed:
			refusal.report(deaf, nil)
			s.missesPushes.Store(false)
			alarm.wakeBy(time.Now())
		default:
			alarm.wakeBy(time.Now().Add(dueIn(event.Data)))
		}
	}
}

// missPushes has the pool looked at more often, which begins with the sleep under way.
func (s *Server) missPushes(alarm *alarm) {
	if !s.missesPushes.Swap(true) {
		alarm.wakeBy(time.Now().Add(s.polledInterval()))
	}
}

// reportPublish tells the log whether waiters could be woken.
func (s *Server) reportPublish(why error) {
	if why != nil {
		why = s.advise(why, "+zpopmin +publish")
	}
	s.outages.report(fmt.Sprintf("Nothing can be said on %s, waiting consumers may get jobs late", s.store.Keys().Wake("*")), why)
}

// listenAnew makes the listener open another connection: the one that it has
// may lead to a server to which nothing is published any more.
func (s *Server) listenAnew() {
	if sub := s.listener.Load(); sub != nil {
		sub.Close()
	}
}

// dueIn reads a message of the channel: in how many ms the next job falls due.
// Somebody else's words are 0: to look does no harm.
func dueIn(message []byte) time.Duration {
	d, _ := time.ParseDuration(string(message) + "ms")
	return max(d, 0)
}
