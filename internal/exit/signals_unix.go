//go:build !windows

package exit

import (
	"os"
	"os/signal"
	"syscall"
)

func notifyReopen(c chan<- os.Signal) { signal.Notify(c, syscall.SIGUSR1) }

func notifyReload(c chan<- os.Signal) { signal.Notify(c, syscall.SIGUSR2) }
