package store

import (
	"context"

	"github.com/gomodule/redigo/redis"
)

// Call is one run of a script, and how its answer is read. Do makes it alone. In a pipeline Send sends it
// and Wait waits for the answer; On does both. A Call is made once.
type Call[T any] struct {
	run
	read func(reply any) (T, error)
}

// run is what a Pipeline knows of a Call.
type run struct {
	store    *Store
	script   *script
	form     *form // of the script, as it was sent
	args     []any // the first is what names the script
	pipeline *Pipeline
	reply    any
	err      error
	done     bool
	behind   bool // it was made once more, behind the one with the script's text
	refused  bool // by a node of a cluster: it was not done
	inText   bool // it goes with the script's text
}

// newCall makes a call of the script. args are as arguments begins them. An error of read is that of an
// answer which can't be one of this script.
func newCall[T any](s *Store, script *script, args []any, read func(reply any) (T, error)) *Call[T] {
	return &Call[T]{run{store: s, script: script, args: args}, read}
}

// arguments begins those of a script: the keys, behind a free place for what names the script. There is
// room for so many more.
func arguments(room int, keys ...string) []any {
	args := make([]any, 2, 2+len(keys)+room)
	args[1] = len(keys)
	return appendAll(args, keys)
}

func appendAll[T any](args []any, more []T) []any {
	for _, arg := range more {
		args = append(args, arg)
	}
	return args
}

// scan reads the first values of a reply that is a list, and returns the others.
func scan(reply any, first ...any) (rest []any, err error) {
	list, err := redis.Values(reply, nil)
	if err != nil {
		return nil, err
	}
	return redis.Scan(list, first...)
}

// unread is for a call whose answer says nothing.
func unread(any) (struct{}, error) { return struct{}{}, nil }

// Do makes the call on a connection of the pool.
func (c *Call[T]) Do(ctx context.Context) (T, error) {
	p, err := c.store.Pipeline(ctx)
	if err != nil {
		var none T
		return none, err
	}
	defer p.Close()
	return c.On(ctx, p)
}

// On makes the call in the pipeline.
func (c *Call[T]) On(ctx context.Context, p *Pipeline) (T, error) {
	return c.Send(p).Wait(ctx)
}

// Send puts the call into the pipeline, and returns it.
func (c *Call[T]) Send(p *Pipeline) *Call[T] {
	c.pipeline, c.form = p, c.script.on(c.store)
	if c.inText {
		p.write(&c.run, "EVAL", c.form.text)
	} else {
		p.write(&c.run, "EVALSHA", c.form.hash)
	}
	return c
}

// InText has the call go with the script's text, where those behind it must not overtake it: they would, if Redis did not know the
// script, and somebody else had it loaded in between.
func (c *Call[T]) InText() *Call[T] {
	c.inText = true
	return c
}

// IsElsewhere reports whether a node of a cluster has refused the call, as it does not have the store's keys, or not all of
// them now: another one has, or soon this one again. Nothing was done; err is the refusal.
func (c *Call[T]) IsElsewhere() bool { return c != nil && c.refused }

// Wait waits for the answer; that to no call, nil, is zero. A redis.Error is Redis's no to this call, before
// it changed anything. Any other error is the connection's: what Redis did is unknown.
func (c *Call[T]) Wait(ctx context.Context) (T, error) {
	var none T
	if c == nil {
		return none, nil
	}
	reply, err := c.pipeline.receive(ctx, &c.run)
	if err != nil {
		return none, err
	}
	result, err := c.read(reply)
	if err != nil {
		return none, errReply(c.script.name, reply)
	}
	return result, nil
}
