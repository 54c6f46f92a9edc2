package main

// notifyPlatform: there is no SIGUSR1 on Windows, and logs can't be renamed
// while they are open.
func notifyPlatform(*signals) {}
