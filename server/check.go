package server

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mix-basic/delayer/internal/redisconn"
	"github.com/mix-basic/delayer/internal/store"
)

const (
	// ErrRefused means that trying again cannot help: a wrong password, a missing permission, no such database, a Redis that is
	// too old, or a certificate that one side does not accept (unless it is a matter of time).
	ErrRefused = store.Error("redis refuses")
	// ErrNoChannel means that the server works but jobs may be late, because the Redis user lacks permission for a channel. Users
	// created on Redis 7 have no channels by default.
	ErrNoChannel = store.Error("redis does not let this user")
	// ErrNoFeature means that the server works except for the features that the error names, because the Redis user lacks commands
	// that they need. It cannot be told before Redis 7.0.
	ErrNoFeature = store.Error("some features will not work")
	// ErrEvicts means that the server works, but that a full Redis evicts jobs instead of refusing new ones. It cannot be told
	// without permission for INFO.
	ErrEvicts = store.Error("redis evicts jobs when it is full")
)

// Check asks Redis once whether the server can work. It changes nothing. Its error wraps ErrRefused, ErrNoChannel, ErrNoFeature
// or ErrEvicts, which may come together. With any other error, such as an unreachable Redis, Run keeps trying.
func (s *Server) Check(ctx context.Context) error {
	if err := s.usable(ctx); err != nil {
		return err
	}
	switch err, amiss := s.fleet.Explain(s.check(ctx)); {
	case amiss || store.Refused(err):
		return fmt.Errorf("%w: %w", ErrRefused, err)
	case distrust(err):
		return &distrustError{err}
	default:
		return err
	}
}

// distrustError wraps ErrRefused for a TLS error, whose text does not say that Redis refuses.
type distrustError struct{ err error }

func (e *distrustError) Error() string   { return e.err.Error() }
func (e *distrustError) Unwrap() []error { return []error{ErrRefused, e.err} }

// distrust reports whether err says that a certificate is not accepted. An expired certificate, or one that is not valid yet, does
// not count: it may be replaced, or a clock set, while we keep trying.
func distrust(err error) bool {
	if invalid := (x509.CertificateInvalidError{}); errors.As(err, &invalid) && invalid.Reason == x509.Expired {
		return false
	}
	if alert := redisconn.Alert(err); alert != nil {
		return !strings.Contains(alert.Error(), "internal error") && !strings.Contains(alert.Error(), "user canceled")
	}
	return errors.As(err, new(*tls.CertificateVerificationError))
}

// checked is what was found of a store.
type checked struct {
	store.Rehearsal
	cantSubscribe error
}

func (s *Server) check(ctx context.Context) error {
	all := make([]checked, len(s.movers))
	failed := s.fleet.Each(func(i int, _ *store.Store) (err error) {
		all[i], err = s.movers[i].check(ctx)
		return err
	})
	var wrong, cantSubscribe, cantPublish error
	var lacking []store.Lack
	var evicting []string
	for i, c := range all {
		if wrong == nil || store.Refused(failed[i]) {
			wrong = cmp.Or(failed[i], wrong)
		}
		if failed[i] != nil {
			continue
		}
		cantSubscribe, cantPublish = cmp.Or(cantSubscribe, s.fleet.Named(i, c.cantSubscribe)), cmp.Or(cantPublish, s.fleet.Named(i, c.CantPublish))
		lacking = append(lacking, c.Lacking...)
		if policy := c.Policy; policy != "" && policy != "noeviction" {
			if addr, _ := s.movers[i].store.Addr(ctx); addr != "" {
				policy += " of node " + addr
			}
			evicting = append(evicting, policy)
		}
	}
	if wrong != nil {
		return wrong
	}
	return errors.Join(s.noChannel(cantSubscribe, cantPublish), noFeatures(lacking), evicts(unique(evicting)))
}

func evicts(policies []string) error {
	if len(policies) == 0 {
		return nil
	}
	slices.Sort(policies)
	return fmt.Errorf("%w: its maxmemory-policy is %s, want noeviction", ErrEvicts, strings.Join(policies, ", "))
}

func noFeatures(lacking []store.Lack) error {
	if len(lacking) == 0 {
		return nil
	}
	var features, commands []string
	for _, l := range lacking {
		features, commands = append(features, l.Feature), append(commands, "+"+strings.ToLower(l.Command))
	}
	return fmt.Errorf("%w: %s; who uses them gives its ACL %s", ErrNoFeature, strings.Join(unique(features), ", "), strings.Join(unique(commands), " "))
}

// unique returns the texts without those that came earlier.
func unique(texts []string) (list []string) {
	for _, text := range texts {
		if !slices.Contains(list, text) {
			list = append(list, text)
		}
	}
	return list
}

func (m *mover) check(ctx context.Context) (c checked, err error) {
	err = m.store.UntilServed(ctx, func() (err error) {
		c.Rehearsal, err = m.rehearse(ctx)
		return err
	})
	if err == nil {
		c.cantSubscribe, err = m.subscribeOnce(ctx)
	}
	return c, err
}

// rehearse makes the calls of a pass, for a job that does not exist, and checks the permissions that these do not reach and
// those of each feature.
func (m *mover) rehearse(ctx context.Context) (all store.Rehearsal, err error) {
	calls, err := m.store.Pipeline(ctx)
	if err != nil {
		return all, err
	}
	defer calls.Close()
	topic, nobody := rand.Text(), store.IDs{[]byte(rand.Text())}
	find := m.store.Due(store.Query{}).Send(calls)
	move := m.store.Move(store.Batch{Topic: topic, IDs: nobody}, time.Now(), time.Now(), time.Now()).Send(calls)
	drop := m.store.Drop(nobody, time.Now(), time.Now()).Send(calls)
	rest := m.store.Rehearse(topic).Send(calls)
	_, cantFind := find.Wait(ctx)
	_, cantMove := move.Wait(ctx)
	_, cantDrop := drop.Wait(ctx)
	if all, err = rest.Wait(ctx); store.LacksPermission(err) {
		return all, err // which names all that is missing
	}
	return all, cmp.Or(cantFind, cantMove, cantDrop, err)
}

func (m *mover) subscribeOnce(ctx context.Context) (refused, err error) {
	sub, err := m.store.Subscribe(ctx, silence, m.firstDue)
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

func (s *Server) noChannel(cantSubscribe, cantPublish error) error {
	var what, why []string
	commands := ""
	for _, c := range []struct {
		refused                error
		verb, channel, command string
	}{
		{cantSubscribe, "subscribe", s.fleet.Pattern().FirstDue(), "+subscribe"},
		{cantPublish, "publish", s.fleet.Pattern().Wake("*"), "+zpopmin +publish"},
	} {
		if store.Refused(c.refused) { // other errors are temporary, such as a moving slot
			what = append(what, c.verb+" to "+c.channel)
			why = append(why, c.refused.Error())
			commands += s.commandOf(c.refused, c.command)
		}
	}
	if what == nil {
		return nil
	}
	return fmt.Errorf("%w %s, so that jobs may come late, by up to %v; its ACL needs &%s*%s (%s)", ErrNoChannel,
		strings.Join(what, " or "), s.polledInterval(), s.fleet.Prefix, commands, strings.Join(why, "; "))
}

// commandOf is what the ACL needs besides channels, or nothing if only a channel was refused.
func (s *Server) commandOf(refused error, command string) string {
	if strings.Contains(refused.Error(), "channel") {
		return ""
	}
	if s.movers[0].store.Sharded() {
		command = strings.NewReplacer("+subscribe", "+ssubscribe", "+publish", "+spublish").Replace(command)
	}
	return " " + command
}

// advise adds the missing permissions to a refusal.
func (s *Server) advise(refused error, command string) error {
	if !store.Refused(refused) {
		return refused
	}
	return fmt.Errorf("%w; the ACL needs &%s*%s", refused, s.fleet.Prefix, s.commandOf(refused, command))
}
