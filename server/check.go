package server

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/mix-basic/delayer/internal/redispool"
	"github.com/mix-basic/delayer/internal/store"
)

var (
	// ErrRefused is in the error of Check when trying again can't help: wrong
	// password, no permission, no such database, a Redis too old; a certificate that one
	// side does not accept, unless time may mend it.
	ErrRefused = errors.New("redis refuses")
	// ErrNoChannel is in the error of Check when the server will work, but jobs
	// may be late because Redis does not let this user use a channel. Users
	// that are made on Redis 7 have none unless they are given some.
	ErrNoChannel = errors.New("redis does not let this user")
)

// Check asks Redis once whether the server could work; it changes nothing. Its
// error wraps ErrRefused when trying again can't help, and ErrNoChannel when all
// works but jobs may be late. With any other error, such as an unreachable
// Redis, Run keeps trying.
func (s *Server) Check(ctx context.Context) error {
	if err := s.usable(ctx); err != nil {
		return err
	}
	switch err := s.check(ctx); {
	case store.Refused(err):
		return fmt.Errorf("%w: %w", ErrRefused, err)
	case distrust(err):
		return &distrustError{err}
	default:
		return err
	}
}

// distrustError is ErrRefused, though it is not Redis that refuses.
type distrustError struct{ err error }

func (e *distrustError) Error() string   { return e.err.Error() }
func (e *distrustError) Unwrap() []error { return []error{ErrRefused, e.err} }

// distrust reports whether err says that the certificates will not do. One that has expired, or is
// not valid yet, may be replaced, or a clock be set, while we try again.
func distrust(err error) bool {
	if invalid := (x509.CertificateInvalidError{}); errors.As(err, &invalid) && invalid.Reason == x509.Expired {
		return false
	}
	if alert := redispool.Alert(err); alert != nil {
		return !strings.Contains(alert.Error(), "internal error") && !strings.Contains(alert.Error(), "user canceled")
	}
	return errors.As(err, new(*tls.CertificateVerificationError))
}

func (s *Server) check(ctx context.Context) error {
	topic := rand.Text()
	if err := s.rehearse(ctx, topic); err != nil {
		return err
	}
	if s.options.Partitions <= 1 {
		if err := (store.Partitions{s.store}).CheckLayout(ctx); err != nil {
			return err
		}
	}
	cantPublish, err := s.store.Rehearse(ctx, topic)
	if store.InTwoSlots(err) {
		return fmt.Errorf("it is a node of a cluster, where all keys have to be in one slot; want a prefix with a hash tag, such as {%s}:, here and in all clients: %w", strings.TrimRight(s.options.Prefix, ":"), err)
	}
	if err != nil {
		return err
	}
	cantSubscribe, err := s.subscribeOnce(ctx)
	if err != nil {
		return err
	}
	return s.noChannel(cantSubscribe, cantPublish)
}

// rehearse does on a job that does not exist what a pass does.
func (s *Server) rehearse(ctx context.Context, topic string) error {
	calls, err := s.store.Pipeline(ctx)
	if err != nil {
		return err
	}
	defer calls.Close()
	nobody := store.IDs{[]byte(rand.Text())}
	_, cantFind := s.store.Due(store.Query{}).On(ctx, calls)
	_, cantMove := s.store.Move(store.Batch{Topic: topic, IDs: nobody}, time.Now(), time.Now(), time.Now()).On(ctx, calls)
	_, cantDrop := s.store.Drop(nobody, time.Now(), time.Now()).On(ctx, calls)
	return cmp.Or(cantFind, cantMove, cantDrop)
}

// subscribeOnce tries to subscribe. refused is why Redis does not let us.
func (s *Server) subscribeOnce(ctx context.Context) (refused, err error) {
	sub, err := s.store.Subscribe(ctx, silence, s.store.Keys().FirstDue())
	if err != nil {
		return nil, err
	}
	defer sub.Close()
	defer context.AfterFunc(ctx, func() { sub.Close() })()
	event, err := sub.Receive()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return event.Refused, err
}

// noChannel is ErrNoChannel if Redis has refused us to subscribe or to publish.
func (s *Server) noChannel(cantSubscribe, cantPublish error) error {
	var what, why []string
	commands := ""
	for _, c := range []struct {
		refused                error
		verb, channel, command string
	}{
		{cantSubscribe, "subscribe", s.store.Keys().FirstDue(), "+subscribe"},
		{cantPublish, "publish", s.store.Keys().Wake("*"), "+zpopmin +publish"},
	} {
		if c.refused != nil {
			what = append(what, c.verb+" to "+c.channel)
			why = append(why, c.refused.Error())
			commands += commandOf(c.refused, c.command)
		}
	}
	if what == nil {
		return nil
	}
	return fmt.Errorf("%w %s, so that jobs may come late, by up to %v; its ACL needs &%s*%s (%s)", ErrNoChannel,
		strings.Join(what, " or "), s.polledInterval(), s.options.Prefix, commands, strings.Join(why, "; "))
}

// commandOf is what an ACL needs beside the channels to permit a command, unless it was refused for these.
func commandOf(refused error, command string) string {
	if strings.Contains(refused.Error(), "channel") {
		return ""
	}
	return " " + command
}

// advise adds to an error what rights are missing.
func (s *Server) advise(refused error, command string) error {
	return fmt.Errorf("%w; the ACL needs &%s*%s", refused, s.options.Prefix, commandOf(refused, command))
}
