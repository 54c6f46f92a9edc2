package devredis

import (
	"reflect"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
)

const (
	// clockShare keeps the work on the clock to 1/clockShare of the time: it stands still for so much longer than it
	// took to set it, but for no longer than longestStill. Where that takes less than shortWork it is set each time: a job that is pushed
	// while it stands still is early by as much.
	clockShare   = 20
	longestStill = time.Second
	shortWork    = time.Millisecond
)

// clock is the time of which TIME tells, and by which TTLs run down. It is set before a command, and stands still within
// a script, so that both are of one moment there: scripts compare them.
//
// To set it walks over all keys: with 10,000 that takes 2 ms. So it stands still for a while where there are many. Left to itself
// miniredis would do that at each command and at each call in a script.
type clock struct {
	redis *miniredis.Miniredis

	mu   sync.Mutex
	at   time.Time
	took time.Duration // to set it, as a rule
}

// runClock gives one that has been started a clock.
func runClock(m *miniredis.Miniredis) {
	k := &clock{redis: m}
	m.SetTime(time.Now().UTC())
	m.ClockTTL(true)
	m.Server().SetPreHook(k.beforeCommand)
}

// beforeCommand waits for the command that is under way, so that no command finds a time before it was sent: a job pushed then would come early.
func (k *clock) beforeCommand(p *server.Peer, _ string, _ ...string) bool {
	if !inScript(p) {
		k.set()
	}
	return false
}

// inScript tells whether a command comes from a script, which miniredis notes in its context of a connection but doesn't say.
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
	k.redis.DB(0) // has the TTLs run down
	// It may have had to wait for the processor, or for a script: that it takes longer than before is believed by and by.
	k.took = min(time.Since(start), k.took+k.took/4+10*time.Microsecond)
}
