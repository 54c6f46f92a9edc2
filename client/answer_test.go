package client_test

import (
	"bytes"
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/testing/pooltest"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// holder is a pool that delays the replies to pops of a topic.
type holder struct {
	client.Redis
	queue []byte
	jobs  bool          // delay calls that name a job instead
	sent  chan struct{} // one for each pop whose reply is delayed
	pass  chan error    // lets one reply through, or replaces it with an error
}

func (f *fixture) hold(topic string) *holder {
	h := newHolder(topic)
	redistest.NotExternal(f.TB, "watches what its connections carry")
	h.Redis = pooltest.Through(f.Addr, f.Clustered, 8, h.held)
	return h
}

func newHolder(topic string) *holder {
	return &holder{queue: []byte(":ready_queue:" + topic + "\r"), sent: make(chan struct{}, 100), pass: make(chan error)}
}

func (h *holder) held(_ context.Context, conn net.Conn) net.Conn { return &held{Conn: conn, holder: h} }

// held is one of the holder's connections.
type held struct {
	net.Conn
	holder *holder
	holds  atomic.Bool
}

func (c *held) Write(b []byte) (int, error) {
	looks := !c.holder.jobs && bytes.HasPrefix(b, []byte("*8\r\n")) // a pop of one topic has more arguments than a poll
	pops := bytes.Contains(b, []byte("EVAL")) && bytes.Contains(b, c.holder.queue) && !looks
	if pops {
		c.holds.Store(true)
	}
	n, err := c.Conn.Write(b)
	if pops {
		c.holder.sent <- struct{}{}
	}
	return n, err
}

func (c *held) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.holds.CompareAndSwap(true, false) {
		if lost := <-c.holder.pass; lost != nil {
			return 0, lost
		}
	}
	return n, err
}

// heldWaiter is a BPop that has found the topic empty, and waits.
func (f *fixture) heldWaiter(ctx context.Context, c *client.Client, h *holder, timeout time.Duration) <-chan result {
	f.TB.Helper()
	return f.waiting(c, func() <-chan result {
		registered := client.Registered(c, "t") // a registered Client does not poll
		popped := bpop(ctx, c, timeout, "t")
		if !registered {
			<-h.sent
			h.pass <- nil
		}
		return popped
	}, "t")
}

// takesNoWrites makes Redis refuse all writes, or makes it accept them again.
func (f *fixture) takesNoWrites(refuses bool) {
	f.TB.Helper()
	replicas := 0
	if refuses {
		replicas = 1
	}
	f.Do("CONFIG", "SET", "min-replicas-to-write", replicas)
}

// If the permission for one topic is revoked, only the waits for that topic end.
func TestPermissionForOneTopicIsRevoked(t *testing.T) {
	t.Parallel()
	f := start(t, alone, undivided)
	c := f.as("u", "~* &* +@all")
	may := f.waiter(t.Context(), c, "may")
	mayNot := f.waiter(t.Context(), c, "may not")
	f.Do("ACL", "SETUSER", "u", "resetkeys", "~delayer:job_*", "~delayer:ready_queue:may")
	expectText(t, "BPop of the other", arrival(t, mayNot).err, "NOPERM")
	f.push("a", "may")
	expectJob(t, may, "a")
}
