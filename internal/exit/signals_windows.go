package exit

import "os"

// notifyReopen does nothing: Windows has no SIGUSR1, and can't rename open logs.
func notifyReopen(chan<- os.Signal) {}

// notifyReload does nothing: Windows has no SIGUSR2.
func notifyReload(chan<- os.Signal) {}
