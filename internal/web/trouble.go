package web

import "github.com/mix-basic/delayer/internal/store"

// Trouble is what a client is told of an error that is not its fault. Redis's own words are for the log: they may name keys and users.
func Trouble(err error) string {
	switch store.KindOf(err) {
	case store.OutOfMemory:
		return "nothing was stored: Redis is out of memory"
	case store.Denied:
		return "the daemon lacks a permission; its log has the details"
	case store.WrongType, store.OtherAnswer:
		return "a key has the wrong type, or Redis has another problem; the daemon's log has the details"
	}
	return "Redis can't be reached, does not reply, or accepts no writes now; it is unknown whether a change was made"
}
