package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/gomodule/redigo/redis"
)

// Pipeline makes script calls on one connection, several of them in flight at a time. Replies arrive in the order of the calls. It is the
// only way to run scripts.
//
// A call that Redis has not run is repeated: with the script's text, or after a call with the text, if Redis did not know the script; once, on
// another connection, if the server takes no writes, or another node of a cluster has the keys now. Further refusals are the call's error. One for now
// (see OfOneSlot), because a slot is moving or a master has died, is for Call.Do to repeat, or for the caller.
//
// If ctx ends while a caller waits for a reply, the connection is closed, and it is unknown whether Redis has run the calls in flight.
// Without a deadline or cancellation only the connection's timeouts have this effect.
//
// It is for one goroutine. Close returns the connection.
type Pipeline struct {
	Replaced bool // the first connection's server did not do our work; set even if no other one was found

	store      *Store // whose connection it is
	conn       redis.Conn
	err        error  // why the connection can't be used any more
	sent       []*run // not yet answered, in order
	served     bool   // the first connection's server has made a call
	isBetter   bool   // the server of the new connection does our work
	unflushed  bool   // some calls are in the client's buffer
	refused    []*run // by that server
	outOfOrder bool   // a call was run after one that was sent later
	// loading has the last call that sent each script's text.
	loading map[*form]*run
}

// Pipeline takes a connection.
func (s *Store) Pipeline(ctx context.Context) (*Pipeline, error) {
	conn, err := s.connection(ctx)
	if err != nil {
		return nil, err
	}
	return &Pipeline{store: s, conn: conn}, nil
}

// Close returns the connection.
func (p *Pipeline) Close() { p.conn.Close() }

// write writes the call, with the text of its script or only its hash.
func (p *Pipeline) write(c *run, inText bool) {
	command := c.name
	switch {
	case c.script == nil:
	case inText:
		command, c.args[0] = "EVAL", c.form.text
	default:
		command, c.args[0] = "EVALSHA", c.form.hash
	}
	if p.err == nil {
		p.err = p.conn.Send(command, c.args...)
	}
	p.sent = append(p.sent, c)
	p.unflushed = true
}

// Flush sends the client's buffer. Waiting for a reply does so too.
func (p *Pipeline) Flush() {
	if p.unflushed && p.err == nil {
		p.err = p.conn.Flush()
		p.unflushed = false
	}
}

// receive waits for the call's reply.
func (p *Pipeline) receive(ctx context.Context, c *run) (any, error) {
	for !c.done {
		p.Flush()
		if p.err != nil {
			return nil, cmp.Or(c.err, causeOf(ctx, p.err)) // refused calls were not run
		}
		p.readOne(ctx)
	}
	return c.reply, c.err
}

// manyCalls is the number of calls from which ReceiveAll waits for all at once. A few with long IDs need a timeout each on a slow
// network.
const manyCalls = 16

// ReceiveAll waits for the replies to all calls in flight, if they are many. If ctx can end, that costs less than separate waits, but all
// calls share one timeout of the connection.
func (p *Pipeline) ReceiveAll(ctx context.Context) {
	p.Flush()
	if ctx.Done() == nil || len(p.sent) < manyCalls || p.err != nil {
		return
	}
	replies, err := redis.Values(redis.DoContext(p.conn, ctx, ""))
	if p.err = err; err != nil {
		return
	}
	for _, reply := range replies {
		err, _ := reply.(redis.Error)
		if err != "" {
			p.answer(ctx, nil, err)
		} else {
			p.answer(ctx, reply, nil)
		}
	}
}

// readOne reads the reply to the oldest call.
func (p *Pipeline) readOne(ctx context.Context) {
	var reply any
	var err error
	if _, bounded := ctx.Deadline(); ctx.Done() == nil && !bounded {
		reply, err = p.conn.Receive() // saves a goroutine
	} else {
		reply, err = redis.ReceiveContext(p.conn, ctx)
	}
	if p.conn.Err() != nil {
		p.err = err
		return
	}
	p.answer(ctx, reply, err)
}

// answer handles the reply to the oldest call.
func (p *Pipeline) answer(ctx context.Context, reply any, err error) {
	c := p.sent[0]
	p.sent = p.sent[1:]
	c.reply, c.err, c.done = reply, err, true
	refused := err != nil && (takesNoWrites(err) || c.store.hasMoved(err))
	if p.Replaced {
		p.judge(!refused)
	} else if err == nil {
		p.served = true
	}
	if err != nil {
		p.makeAgain(c, err, refused)
	}
	if len(p.sent) == 0 && len(p.refused) > 0 && p.err == nil {
		p.replace(ctx)
	}
}

// makeAgain repeats the call if err shows that Redis has not run it but may. Some calls wait until later ones are answered.
func (p *Pipeline) makeAgain(c *run, err error, refused bool) {
	behind := len(p.sent) > 0
	switch {
	case meaningOf(err) == unknownScript:
		c.err, c.done = nil, false
		p.load(c)
	case refused && !p.Replaced && p.store.source.MayReplace():
		c.done = false
		p.refused = append(p.refused, c)
	default:
		return
	}
	p.outOfOrder = p.outOfOrder || behind
}

// load repeats a call that was answered with NOSCRIPT, with the script's text. Only the first of many such calls includes the text, since
// Redis knows the script when it reaches the others.
func (p *Pipeline) load(c *run) {
	if first := p.loading[c.form]; first != nil && !first.done && !c.behind {
		c.behind = true
		p.write(c, false)
		return
	}
	if p.loading == nil {
		p.loading = map[*form]*run{}
	}
	p.loading[c.form] = c
	p.write(c, true)
}

// judge notes what the server of the new connection does: if it does not do our work either, later calls need not look for another so soon.
func (p *Pipeline) judge(doesIt bool) {
	switch {
	case !doesIt:
		p.store.source.ReplacedInVain()
	case !p.isBetter && p.store.onReplaced != nil && !p.store.inCluster:
		p.isBetter = true
		p.store.onReplaced()
	}
}

// replace takes a new connection and repeats the calls that the old server has refused. If there is no other server, the calls keep their
// refusals: they were not run.
func (p *Pipeline) replace(ctx context.Context) {
	again := p.refused
	p.refused, p.Replaced, p.loading = nil, true, nil
	conn, err := p.store.source.Replace(ctx, p.conn)
	if err != nil {
		p.err = err
		p.store.source.ReplacedInVain()
		for _, c := range again {
			c.err, c.done = fmt.Errorf("%w; no other server is found: %w", c.err, causeOf(ctx, err)), true
		}
		return
	}
	p.conn = conn
	for _, c := range again {
		c.err = nil // the refusal says nothing about this try
		p.write(c, false)
	}
}

// InOrder reports whether all answered calls were run in the order in which they were sent, with none repeated after others.
func (p *Pipeline) InOrder() bool { return !p.outOfOrder }

// causeOf returns context.DeadlineExceeded if ctx's deadline caused err, else err: redigo's read timeout ends at the deadline too, and may be
// reported first.
func causeOf(ctx context.Context, err error) error {
	deadline, ok := ctx.Deadline()
	if ok && errors.Is(err, os.ErrDeadlineExceeded) && !time.Now().Before(deadline) {
		return context.DeadlineExceeded
	}
	return err
}

// together makes commands in one round trip. A reply may be a redis.Error.
func (s *Store) together(ctx context.Context, commands [][]any) ([]any, error) {
	conn, err := s.connection(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	for _, c := range commands {
		if err := conn.Send(c[0].(string), c[1:]...); err != nil {
			return nil, causeOf(ctx, err)
		}
	}
	replies, err := redis.Values(redis.DoContext(conn, ctx, ""))
	switch {
	case err != nil:
		return nil, causeOf(ctx, err)
	case len(replies) != len(commands):
		return nil, errReply("a pipeline", replies)
	}
	return replies, nil
}

// command makes a single command.
func (s *Store) command(ctx context.Context, name string, args ...any) (reply any, err error) {
	err = s.onNode(ctx, func(conn redis.Conn) error {
		reply, err = redis.DoContext(conn, ctx, name, args...)
		return err
	})
	return reply, err
}

// onNode calls do with a connection, and again with another one after a refusal by a node of a cluster.
func (s *Store) onNode(ctx context.Context, do func(redis.Conn) error) error {
	return s.UntilServed(ctx, func() error {
		conn, err := s.connection(ctx)
		if err != nil {
			return err
		}
		defer conn.Close()
		err = do(conn)
		s.hasMoved(err)
		return causeOf(ctx, err)
	})
}
