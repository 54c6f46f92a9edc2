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

var (
	// ErrRefused is in the error of Check when trying again can't help: wrong
	// password, no permission, no such database, a Redis too old; a certificate that one
	// side does not accept, unless time may mend it.
	ErrRefused = errors.New("redis refuses")
	// ErrNoChannel is in the error of Check when the server will work, but jobs
	// may be late because Redis does not let this user use a channel. Users
	// that are made on Redis 7 have none unless they are given some.
	ErrNoChannel = errors.New("redis does not let this user")
	// ErrNoFeature is in the error of Check when the server will work, but for some features, which it names:
	// this user lacks commands that they need. Redis before 7.0 doesn't tell.
	ErrNoFeature = errors.New("some features won't work")
	// ErrEvicts is in the error of Check when the server will work, but a Redis that is full throws jobs away instead of
	// refusing new ones. A user who may not INFO is not told.
	ErrEvicts = errors.New("redis throws jobs away when it is full")
)

// Check asks Redis once whether the server could work; it changes nothing. Its
// error wraps ErrRefused when trying again can't help, ErrNoChannel when all
// works but jobs may be late, ErrNoFeature when all works that needs no more than
// its user may do, and ErrEvicts when all works until Redis is full. With any other error, such as an unreachable
// Redis, Run keeps trying.
func (s *Server) Check(ctx context.Context) error {
	if err := s.usable(ctx); err != nil {
		return err
	}
	switch err := s.check(ctx); {
	case s.movers[0].store.IsElsewhere(err):
		return fmt.Errorf("%w: it is a node of a Redis Cluster, and other nodes have keys of ours; want redis-cluster://… with partitions, or [redis] cluster: %w", ErrRefused, err)
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
	if alert := redisconn.Alert(err); alert != nil {
		return !strings.Contains(alert.Error(), "internal error") && !strings.Contains(alert.Error(), "user canceled")
	}
	return errors.As(err, new(*tls.CertificateVerificationError))
}

func (s *Server) check(ctx context.Context) error {
	if err := s.partitions.Locate(ctx); err != nil {
		return err
	}
	byNode := map[any][]*mover{}
	for _, m := range s.movers {
		byNode[m.store.Node()] = append(byNode[m.store.Node()], m)
	}
	var wrong, cantSubscribe, cantPublish error
	var lacking []store.Lack
	var evicting []string
	for _, movers := range byNode {
		noSubscribing, rehearsed, err := s.checkNode(ctx, movers)
		if wrong == nil || store.Refused(err) {
			wrong = cmp.Or(err, wrong)
		}
		if err != nil {
			continue
		}
		cantSubscribe, cantPublish = cmp.Or(cantSubscribe, noSubscribing), cmp.Or(cantPublish, rehearsed.CantPublish)
		lacking = append(lacking, rehearsed.Lacking...)
		if policy := rehearsed.Policy; policy != "" && policy != "noeviction" {
			evicting = append(evicting, strings.TrimSuffix(policy+" of node "+movers[0].store.NodeAddr(), " of node "))
		}
	}
	if wrong != nil {
		return wrong
	}
	return errors.Join(s.noChannel(cantSubscribe, cantPublish), noFeatures(lacking), evicts(evicting))
}

// evicts is ErrEvicts if there are any such policies.
func evicts(policies []string) error {
	if len(policies) == 0 {
		return nil
	}
	slices.Sort(policies)
	return fmt.Errorf("%w: its maxmemory-policy is %s, want noeviction", ErrEvicts, strings.Join(policies, ", "))
}

// noFeatures is ErrNoFeature if there are any that lack commands.
func noFeatures(lacking []store.Lack) error {
	if len(lacking) == 0 {
		return nil
	}
	var features, commands []string
	for _, l := range lacking {
		if command := "+" + strings.ToLower(l.Command); !slices.Contains(commands, command) {
			commands = append(commands, command)
		}
		if !slices.Contains(features, l.Feature) {
			features = append(features, l.Feature)
		}
	}
	return fmt.Errorf("%w: %s; who uses them gives its ACL %s", ErrNoFeature, strings.Join(features, ", "), strings.Join(commands, " "))
}

// checkNode checks the partitions of those movers, which are on one node, in a few round trips.
func (s *Server) checkNode(ctx context.Context, movers []*mover) (cantSubscribe error, rehearsed store.Rehearsal, err error) {
	topic := rand.Text()
	if err := rehearsePass(ctx, movers, topic); err != nil {
		return nil, rehearsed, err
	}
	rehearsed, err = rehearse(ctx, movers, topic)
	if store.InTwoSlots(err) {
		return nil, rehearsed, fmt.Errorf("it is a node of a cluster, where all keys have to be in one slot; want partitions and [redis] cluster, or a prefix with a hash tag, such as {%s}:, here and in all clients: %w", strings.TrimRight(s.options.Prefix, ":"), err)
	}
	if err != nil {
		return nil, rehearsed, err
	}
	cantSubscribe, err = subscribeOnce(ctx, movers)
	return cantSubscribe, rehearsed, err
}

// rehearsePass does on a job that does not exist what passes do.
func rehearsePass(ctx context.Context, movers []*mover, topic string) error {
	calls, err := movers[0].store.Pipeline(ctx)
	if err != nil {
		return err
	}
	defer calls.Close()
	nobody := store.IDs{[]byte(rand.Text())}
	var wait []func() error
	for _, m := range movers {
		find := m.store.Due(store.Query{}).Send(calls)
		move := m.store.Move(store.Batch{Topic: topic, IDs: nobody}, time.Now(), time.Now(), time.Now()).Send(calls)
		drop := m.store.Drop(nobody, time.Now(), time.Now()).Send(calls)
		wait = append(wait, func() error {
			_, cantFind := find.Wait(ctx)
			_, cantMove := move.Wait(ctx)
			_, cantDrop := drop.Wait(ctx)
			return m.named(cmp.Or(cantFind, cantMove, cantDrop))
		})
	}
	for _, wrong := range wait {
		err = cmp.Or(err, wrong())
	}
	return err
}

// rehearse sees whether jobs could be moved as far as a call that moves none can't tell, and what else could be done.
func rehearse(ctx context.Context, movers []*mover, topic string) (all store.Rehearsal, err error) {
	calls, err := movers[0].store.Pipeline(ctx)
	if err != nil {
		return all, err
	}
	defer calls.Close()
	var rehearsing []*store.Call[store.Rehearsal]
	for _, m := range movers {
		rehearsing = append(rehearsing, m.store.Rehearse(topic).Send(calls))
	}
	for i, m := range movers {
		one, wrong := rehearsing[i].Wait(ctx)
		all.CantPublish, err = cmp.Or(all.CantPublish, m.named(one.CantPublish)), cmp.Or(err, m.named(wrong))
		all.Lacking = append(all.Lacking, one.Lacking...)
		all.Policy = cmp.Or(all.Policy, one.Policy)
	}
	return all, err
}

// subscribeOnce tries to subscribe. refused is why Redis does not let us.
func subscribeOnce(ctx context.Context, movers []*mover) (refused, err error) {
	var channels []string
	for _, m := range movers {
		channels = append(channels, m.store.Keys().FirstDue())
	}
	sub, err := movers[0].store.Subscribe(ctx, silence, channels...)
	if err != nil {
		return nil, err
	}
	defer sub.Close()
	defer context.AfterFunc(ctx, func() { sub.Close() })()
	for _, m := range movers {
		event, err := sub.Receive()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			return nil, err
		}
		refused = cmp.Or(refused, m.named(event.Refused))
	}
	return refused, nil
}

// noChannel is ErrNoChannel if Redis has refused us to subscribe or to publish.
func (s *Server) noChannel(cantSubscribe, cantPublish error) error {
	var what, why []string
	commands := ""
	for _, c := range []struct {
		refused                error
		verb, channel, command string
	}{
		{cantSubscribe, "subscribe", s.channel(store.Keys.FirstDue), "+subscribe"},
		{cantPublish, "publish", s.channel(func(k store.Keys) string { return k.Wake("*") }), "+zpopmin +publish"},
	} {
		if store.Refused(c.refused) { // what else keeps it from that passes, as a slot that is on its way
			what = append(what, c.verb+" to "+c.channel)
			why = append(why, c.refused.Error())
			commands += s.commandOf(c.refused, c.command)
		}
	}
	if what == nil {
		return nil
	}
	return fmt.Errorf("%w %s, so that jobs may come late, by up to %v; its ACL needs &%s*%s (%s)", ErrNoChannel,
		strings.Join(what, " or "), s.polledInterval(), s.options.Prefix, commands, strings.Join(why, "; "))
}

// commandOf is what an ACL needs beside the channels to permit a command, unless it was refused for these.
func (s *Server) commandOf(refused error, command string) string {
	if strings.Contains(refused.Error(), "channel") {
		return ""
	}
	if s.movers[0].store.Sharded() {
		command = strings.NewReplacer("+subscribe", "+ssubscribe", "+publish", "+spublish").Replace(command)
	}
	return " " + command
}

// advise adds to an error what rights are missing, if it is for these that Redis refuses.
func (s *Server) advise(refused error, command string) error {
	if !store.Refused(refused) {
		return refused
	}
	return fmt.Errorf("%w; the ACL needs &%s*%s", refused, s.options.Prefix, s.commandOf(refused, command))
}
