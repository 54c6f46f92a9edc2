package main

import (
	"os"
	"os/signal"
	"syscall"
	"time"
)

// sameSignal is how long a second signal to stop counts as the first: GNU timeout
// sends it twice.
const sameSignal = time.Second

// signals are those that the daemon is told something by.
type signals struct {
	stop   chan os.Signal
	reopen chan os.Signal
}

// notify takes the signals over, until the end of the program. hangUp says whether
// SIGHUP stops the program even if it was started to ignore it, as nohup does.
// The other stop signals count in any case: a shell without job control ignores
// SIGINT and SIGQUIT in all that it starts with &.
func notify(hangUp bool) *signals {
	s := &signals{stop: make(chan os.Signal, 2), reopen: make(chan os.Signal, 1)}
	signal.Notify(s.stop, syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT)
	if hangUp || !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(s.stop, syscall.SIGHUP)
	}
	notifyReopen(s.reopen)
	return s
}
