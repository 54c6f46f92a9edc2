//go:build !windows

package main

import (
	"os/signal"
	"syscall"
)

func notifyPlatform(s *signals) {
	signal.Notify(s.reopen, syscall.SIGUSR1)
	// A console that has gone (delayer | head) is no reason to stop delivering.
	signal.Ignore(syscall.SIGPIPE)
}
