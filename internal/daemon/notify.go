package daemon

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/mix-basic/delayer/internal/store"
)

// statusEvery is the interval between status updates for systemd while only numbers change.
const statusEvery = 5 * time.Second

// notifier reports the state of the service to systemd, see sd_notify(3). A nil one, without systemd, does nothing.
//
// The service is ready after its first pass, even if Redis was down: the server waits for Redis by itself, and systemd would kill
// a start that waited. Every end of a step feeds the watchdog, even a failed step: a hung Redis ends each step by a timeout, and
// a restart would not help. So systemd restarts a service only if its own loop hangs.
type notifier struct {
	socket   net.Conn
	watchdog time.Duration // feeding interval of the watchdog; 0: no watchdog

	mu       sync.Mutex
	ready    bool
	fed      time.Time
	trouble  string // why passes fail; empty: they succeed
	shown    time.Time
	moved    int // jobs moved since the start
	movedOld int // number in the last status
}

// newNotifier returns the notifier, or nil without systemd.
func newNotifier() (*notifier, error) {
	path := os.Getenv("NOTIFY_SOCKET")
	if path == "" {
		return nil, nil
	}
	socket, err := net.Dial("unixgram", path)
	if err != nil {
		return nil, fmt.Errorf("NOTIFY_SOCKET: %w", err)
	}
	n := &notifier{socket: socket}
	pid := os.Getenv("WATCHDOG_PID")
	if us, err := strconv.Atoi(os.Getenv("WATCHDOG_USEC")); err == nil && (pid == "" || pid == strconv.Itoa(os.Getpid())) {
		n.watchdog = time.Duration(us) * time.Microsecond / 4
	}
	return n, nil
}

// tell sends lines to systemd. It is best effort: the server waits for it.
func (n *notifier) tell(lines ...string) {
	n.socket.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
	n.socket.Write([]byte(strings.Join(lines, "\n")))
}

// feed feeds the watchdog if that is due.
func (n *notifier) feed() {
	if now := time.Now(); n.watchdog > 0 && now.Sub(n.fed) >= n.watchdog {
		n.fed = now
		n.tell("WATCHDOG=1")
	}
}

func (n *notifier) jobsMoved(jobs int) {
	if n == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.moved += jobs
	n.feed()
}

func (n *notifier) passed(err error) {
	if n == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.feed()
	trouble := ""
	switch {
	case err != nil && store.Temporary(err):
		trouble = "waiting for Redis: " + err.Error()
	case err != nil:
		trouble = "passes fail: " + err.Error()
	}
	now := time.Now()
	if trouble == n.trouble && now.Sub(n.shown) < statusEvery {
		return
	}
	status := trouble
	if trouble == "" {
		rate := 0.0
		if !n.shown.IsZero() {
			rate = float64(n.moved-n.movedOld) / now.Sub(n.shown).Seconds()
		}
		status = fmt.Sprintf("%d jobs delivered, %.1f a second", n.moved, rate)
	}
	n.trouble, n.shown, n.movedOld = trouble, now, n.moved
	lines := []string{"STATUS=" + strings.ReplaceAll(status, "\n", " ")}
	if !n.ready {
		n.ready = true
		lines = append(lines, "READY=1")
	}
	n.tell(lines...)
}

// stopping reports to systemd that the service stops.
func (n *notifier) stopping() {
	if n != nil {
		n.tell("STOPPING=1", "STATUS=finishing the batch in progress")
	}
}
