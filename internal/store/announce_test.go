package store

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// monitor returns the commands that Redis runs during the call.
func (b *backend) monitor(t *testing.T, call func()) []string {
	t.Helper()
	redistest.NotExternal(t, "reads with MONITOR what others do, too")
	conn, err := b.source.Dial(t.Context())
	check(t, err)
	check(t, errOf(conn.Do("MONITOR")))
	call()
	end := fmt.Sprint("the end of the call ", rand.Uint64()) // not of another test's
	b.do(t, "ECHO", end)
	var lines []string
	for {
		line, err := redis.String(conn.Receive())
		check(t, err)
		if strings.HasSuffix(line, `"`+end+`"`) {
			return lines
		}
		lines = append(lines, line)
	}
}

// Jobs that become ready are announced once per call and topic, with the length of the queue. TestOneWaiterIsWoken covers other calls.
func TestReadyIsAnnounced(t *testing.T) {
	t.Parallel()
	b, _ := onRedis(t, alone)
	b.seed(t, ready("r", "t"))
	var jobs []Delayed
	for _, id := range []string{"t1", "u1", "t2", "t3"} {
		jobs = append(jobs, aJob(id, id[:1], 0))
	}
	for _, topic := range []string{"t", "u"} {
		b.do(t, "ZADD", b.keys.Waiters(topic), 1, "of "+topic)
	}
	got := b.woken(t, func() { check(t, b.pushAll(t, jobs...)) })
	slices.Sort(got)
	if !slices.Equal(got, []string{"of t: 4 t", "of u: 1 u"}) {
		t.Errorf("woken: %q", got)
	}
}

// A job is announced if it is the next one due, and due soon. Of several jobs the first one due is announced, whatever their order. A
// rescheduled job is announced as well.
func TestNextDueIsAnnounced(t *testing.T) {
	t.Parallel()
	b, _ := onRedis(t, alone)
	push := func(delays ...time.Duration) func() error {
		var jobs []Delayed
		for i, delay := range delays {
			jobs = append(jobs, aJob(fmt.Sprint(i), "t", delay))
		}
		return func() error { return b.pushAll(t, jobs...) }
	}
	next := waits("w", "t", 40*second)
	for _, c := range []struct {
		name string
		seed []command
		call func() error
		want []string
	}{
		{"the next", next, push(30 * time.Second), []string{"30000"}},
		{"not the next", next, push(50 * time.Second), nil},
		{"at no time soon", nil, push(2 * time.Minute), nil},
		{"none of a batch soon", nil, push(2*time.Minute, 3*time.Minute), nil},
		{"the first of a batch", next, push(10*time.Second, 20*time.Second), []string{"10000"}},
		{"in the midst", next, push(20*time.Second, 10*time.Second, 30*time.Second, 0), []string{"10000"}},
		{"rescheduled", next, func() error { return b.Reschedule(t.Context(), "w", 15*time.Second) }, []string{"15000"}},
		{"rescheduled when ready", next, func() error { return b.Reschedule(t.Context(), "r", 15*time.Second) }, []string{"15000"}},
	} {
		b.seed(t, waits("overdue", "t", -5*second), ready("r", "t"), c.seed)
		if got := b.told(t, "delayer:first_due", func() { check(t, c.call()) }); !slices.Equal(got, c.want) {
			t.Errorf("%s: announced %q, want %q", c.name, got, c.want)
		}
	}
}

// told returns the messages on a channel during the call.
func (b *backend) told(t *testing.T, channel string, call func()) (messages []string) {
	t.Helper()
	for _, line := range b.monitor(t, call) {
		messages = append(messages, published(line, channel)...)
	}
	return messages
}

// The end of a lease is announced like any due time: if it comes next in the pool. The lease itself does not count as an earlier one.
func TestEndsOfLeasesAreAnnounced(t *testing.T) {
	t.Parallel()
	b, _ := onRedis(t, alone)
	own := func(id string, ttr time.Duration) []command {
		return append(ready(id, "t"), field(id, "options", fmt.Sprintf("0 %d 604800000", ttr.Milliseconds()))...)
	}
	reserve := func(lease time.Duration) func(LeaseRef) {
		return func(LeaseRef) { b.reserve(t, 9, Reservation{Lease: lease}, "t") }
	}
	extend := func(lease time.Duration) func(LeaseRef) {
		return func(held LeaseRef) {
			made(t, b.Extend([]*Extension{{LeaseRef: held, Lease: lease}}))
		}
	}
	retry := func(delay time.Duration) func(LeaseRef) {
		return func(held LeaseRef) {
			made(t, b.Retry([]Returned{{LeaseRef: held, Delay: delay}}))
		}
	}
	for _, c := range []struct {
		name string
		seed [][]command
		call func(LeaseRef)
		want time.Duration // 0: no announcement
	}{
		{"the next", [][]command{ready("a", "t"), waits("w", "t", 50*second), waits("overdue", "t", -5*second)}, reserve(20 * time.Second), 20 * time.Second},
		{"behind another", [][]command{ready("a", "t"), waits("w", "t", 10*second)}, reserve(20 * time.Second), 0},
		{"at no time soon", [][]command{ready("a", "t")}, reserve(2 * time.Minute), 0},
		{"the job's own", [][]command{own("a", 5*time.Second)}, reserve(0), 5 * time.Second},
		{"the job's own, before the others'", [][]command{ready("a", "t"), own("b", 5*time.Second), ready("c", "t")}, reserve(0), 5 * time.Second},
		{"the others', before the job's own", [][]command{own("a", 50*time.Second), ready("b", "t")}, reserve(0), 30 * time.Second},
		{"of jobs that were delivered before", [][]command{ready("a", "t"), field("a", "lease", "1 5 0")}, reserve(20 * time.Second), 20 * time.Second},
		{"shortened", nil, extend(5 * time.Second), 5 * time.Second},
		{"extended", nil, extend(50 * time.Second), 50 * time.Second},
		{"shortened, behind another", [][]command{waits("w", "t", 10*second)}, extend(20 * time.Second), 0},
		{"a delayed retry", nil, retry(5 * time.Second), 5 * time.Second},
		{"a delayed retry, behind another", [][]command{waits("w", "t", 10*second)}, retry(20 * time.Second), 0},
	} {
		b.seed(t, append(c.seed, ready("held", "h"))...)
		held, _ := b.hold(t, "h", 90*time.Second)
		got := b.told(t, "delayer:first_due", func() { c.call(held) })
		want := map[bool]string{true: "[]", false: fmt.Sprintf("[%d]", c.want.Milliseconds())}[c.want == 0]
		more := fmt.Sprintf("[%d]", c.want.Milliseconds()+1) // if the lease would end at a whole ms
		if s := fmt.Sprint(got); s != want && (c.want == 0 || s != more) {
			t.Errorf("%s: told %s, want %s", c.name, s, want)
		}
	}
}

// published returns the message to the channel in a line of MONITOR, if any.
func published(line, channel string) []string {
	if _, message, ok := strings.Cut(line, fmt.Sprintf(`"PUBLISH" %q `, channel)); ok {
		return []string{strings.Trim(message, `"`)}
	}
	return nil
}
