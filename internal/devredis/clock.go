package devredis

import (
	"reflect"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
)

const (
	// clockShare limits the time spent on setting the clock to 1/clockShare: after it was set it stands still
	// that many times longer, up to longestStill. If setting it takes less than shortWork it is set each
	// time. A job pushed while it stands still is early by as much.
	clockShare   = 20
	longestStill = time.Second
	shortWork    = time.Millisecond
)

// clock is the time returned by TIME and used for TTLs. It is set before a command and stands still within a
// script, so that both agree there: scripts compare them.
//
// Setting it walks over all keys, which takes 2 ms with 10,000, so with many keys it stands still for a
// while. miniredis itself would do that at each command and each call of a script.
type clock struct {
	redis *miniredis.Miniredis

	mu   sync.Mutex
	at   time.Time
	took time.Duration // smoothed duration of setting it
}

// runClock attaches a clock to a started miniredis.
func runClock(m *miniredis.Miniredis) {
	k := &clock{redis: m}
	m.SetTime(time.Now().UTC())
	m.ClockTTL(true)
	m.Server().SetPreHook(k.beforeCommand)
}

// beforeCommand waits for the current command, so that no command finds a time before it was sent: a job
// pushed then would be early.
func (k *clock) beforeCommand(p *server.Peer, _ string, _ ...string) bool {
	if !inScript(p) {
		k.set()
	}
	return false
}

// inScript reports whether a script sent the command. miniredis records that in the connection's context
// without exporting it.
func inScript(p *server.Peer) bool {
	return p.Ctx != nil && reflect.ValueOf(p.Ctx).Elem().FieldByName("nested").Bool()
}

func (k *clock) set() {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now()
	if k.took > shortWork && now.Sub(k.at) < min(clockShare*k.took, longestStill) {
		return
	}
	k.at = now
	k.redis.SetTime(now.UTC())
	start := time.Now()
	k.redis.DB(0) // expires keys
	// It may have waited for the processor or for a script, so an increase is accepted gradually.
	k.took = min(time.Since(start), k.took+k.took/4+10*time.Microsecond)
}
