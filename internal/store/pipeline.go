package store

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/gomodule/redigo/redis"
)

// Pipeline makes script calls on one connection: several may be under way at a
// time, and their answers come in the order in which they were sent. It is the
// only way in which scripts are run.
//
// A call that Redis has not done is made once more, which nobody notices: with
// the script's text, or behind a call that has it, if Redis did not know the
// script; on a new connection, if the server is none that takes writes any more.
//
// It is for one goroutine. Close gives the connection back.
type Pipeline struct {
	store    *Store
	ctx      context.Context
	conn     redis.Conn
	err      error   // why the connection can't be used any more
	sent     []*call // not yet answered, in the order in which answers come
	flushed  bool    // nothing of it is in our own buffer
	refused  []*call // by a server that takes no writes
	replaced bool    // the connection is the second one
	late     bool    // a call was done after one that was sent behind it
	// loading are the last calls with which scripts' texts were sent.
	loading map[*script]*call
}

// call is one run of a script.
type call struct {
	script *script
	args   []any // the first is what names the script
	reply  any
	err    error
	done   bool
	behind bool // it was made once more, behind the one with the script's text
}

// Pipeline takes a connection. Once ctx is done the answers are no longer
// waited for, and the connection is given up: whether Redis has done the calls
// that were under way is unknown then. A ctx that can't end leaves it to the
// connection's timeouts.
func (s *Store) Pipeline(ctx context.Context) (*Pipeline, error) {
	conn, err := s.pool.Get(ctx)
	if err != nil {
		return nil, causeOf(ctx, err)
	}
	return &Pipeline{store: s, ctx: ctx, conn: conn, flushed: true}, nil
}

// WithoutCancel has all answers waited for from now on, whatever becomes of
// ctx: what a call brings must not be lost.
func (p *Pipeline) WithoutCancel() { p.ctx = context.WithoutCancel(p.ctx) }

// Close gives the connection back.
func (p *Pipeline) Close() { p.conn.Close() }

// send puts a call into the pipeline. args are the script's, see script.args.
func (p *Pipeline) send(s *script, args []any) *call {
	c := &call{script: s, args: args}
	p.write(c, "EVALSHA", s.hash)
	return c
}

func (p *Pipeline) write(c *call, command string, name any) {
	c.args[0] = name
	if p.err == nil {
		p.err = p.conn.Send(command, c.args...)
	}
	p.sent = append(p.sent, c)
	p.flushed = false
}

// Flush sends what is still in our own buffer. To wait for an answer does so too.
func (p *Pipeline) Flush() {
	if !p.flushed && p.err == nil {
		p.err = p.conn.Flush()
		p.flushed = true
	}
}

// receive waits for the call's answer.
func (p *Pipeline) receive(c *call) (any, error) {
	for !c.done {
		p.Flush()
		if p.err != nil {
			return nil, causeOf(p.ctx, p.err)
		}
		p.readOne()
	}
	return c.reply, c.err
}

// manyCalls is how many calls must be under way to wait for all at once. A few with long IDs
// need a timeout each on a slow network.
const manyCalls = 16

// ReceiveAll waits for the answers to all calls that are under way, if they are many.
// Where ctx can end that costs less than to wait for each of them, but the
// connection's timeout is then one for all.
func (p *Pipeline) ReceiveAll() {
	p.Flush()
	if p.ctx.Done() == nil || len(p.sent) < manyCalls || p.err != nil {
		return
	}
	replies, err := redis.Values(redis.DoContext(p.conn, p.ctx, ""))
	if p.err = err; err != nil {
		return
	}
	for _, reply := range replies {
		err, _ := reply.(redis.Error)
		if err != "" {
			p.answer(nil, err)
		} else {
			p.answer(reply, nil)
		}
	}
}

// readOne reads the answer to the call that was sent first.
func (p *Pipeline) readOne() {
	reply, err := p.read()
	if p.conn.Err() != nil {
		p.err = err
		return
	}
	p.answer(reply, err)
}

// answer is that to the call that was sent first.
func (p *Pipeline) answer(reply any, err error) {
	c := p.sent[0]
	p.sent = p.sent[1:]
	behind := len(p.sent) > 0
	switch {
	case begins(err, "NOSCRIPT"):
		p.late = p.late || behind
		p.load(c)
	case takesNoWrites(err) && !p.replaced:
		p.late = p.late || behind
		p.refused = append(p.refused, c)
	default:
		c.reply, c.err, c.done = reply, err, true
	}
	if p.err == nil && len(p.refused) > 0 && len(p.sent) == 0 {
		p.replace()
	}
}

// load makes a call once more whose script Redis did not know. The text goes with the first of
// many such calls only; Redis knows it when it comes to the others.
func (p *Pipeline) load(c *call) {
	if first := p.loading[c.script]; first != nil && !first.done && !c.behind {
		c.behind = true
		p.write(c, "EVALSHA", c.script.hash)
		return
	}
	if p.loading == nil {
		p.loading = map[*script]*call{}
	}
	p.loading[c.script] = c
	p.write(c, "EVAL", c.script.text)
}

func (p *Pipeline) read() (any, error) {
	if p.ctx.Done() == nil {
		return p.conn.Receive() // spares a goroutine
	}
	return redis.ReceiveContext(p.conn, p.ctx)
}

// replace goes on with a new connection, and has it do what the old one's
// server has refused.
func (p *Pipeline) replace() {
	conn, err := p.store.pool.Replace(p.ctx, p.conn)
	if err != nil {
		p.err = err
		return
	}
	p.conn, p.replaced, p.loading = conn, true, nil
	again := p.refused
	p.refused = nil
	for _, c := range again {
		p.write(c, "EVALSHA", c.script.hash)
	}
}

// Replaced reports whether the server at the pipeline's first connection took
// no writes, so that there is another connection now.
func (p *Pipeline) Replaced() bool { return p.replaced }

// InOrder reports whether all calls that were answered were done in the order in
// which they were sent: none had to be sent once more, behind others.
func (p *Pipeline) InOrder() bool { return !p.late }

// causeOf is context.DeadlineExceeded if ctx's deadline is behind err, else err. redigo reads
// with a timeout that ends at the deadline, so that the timeout may be reported first.
func causeOf(ctx context.Context, err error) error {
	deadline, ok := ctx.Deadline()
	if ok && errors.Is(err, os.ErrDeadlineExceeded) && !time.Now().Before(deadline) {
		return context.DeadlineExceeded
	}
	return err
}

// one makes a single call.
func (s *Store) one(ctx context.Context, script *script, keys []string, args ...any) (any, error) {
	p, err := s.Pipeline(ctx)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	return p.receive(p.send(script, script.args(keys, args...)))
}
