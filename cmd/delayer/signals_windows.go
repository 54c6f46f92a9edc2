package main

import "os"

// notifyReopen: there is no SIGUSR1 on Windows, and logs can't be renamed while
// they are open.
func notifyReopen(chan<- os.Signal) {}

// notifyReload: nor is there SIGUSR2.
func notifyReload(chan<- os.Signal) {}
