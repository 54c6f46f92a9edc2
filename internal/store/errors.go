package store

import (
	"errors"
	"fmt"

	"github.com/gomodule/redigo/redis"
)

var (
	// ErrExists is returned when a push is to be refused because its ID exists.
	ErrExists = errors.New("job exists")
	// ErrReused is ErrExists of a push that says something else than the one of its ID which counts.
	ErrReused = fmt.Errorf("%w, and was pushed with another content", ErrExists)
	// ErrOtherFailed is that of a job which is not stored because of another one's.
	ErrOtherFailed = errors.New("another job of the same chunk can't be stored")
	// ErrLater is that of a push which is for another call, as this one has enough to do. Nothing was done.
	ErrLater = errors.New("it is for another call")
	// ErrNotFound is returned when there is no job of that ID.
	ErrNotFound = errors.New("no such job")
	// ErrEmpty is returned when no queue has a job.
	ErrEmpty = errors.New("no job is ready")
)

// Kind is what an error says of Redis.
type Kind int

const (
	NoError     Kind = iota
	NoAnswer         // the network, a timeout, or an error that is not of Redis
	NotNow           // loading, a replica, failing over, busy: asking again may help
	OutOfMemory      // nothing was stored
	Denied           // Redis says no to whoever we are, or to what it is: asking again can't help
	WrongType        // a key is not of the type that it should be
	OtherAnswer
)

// KindOf is the kind of an error.
func KindOf(err error) Kind {
	switch {
	case err == nil:
		return NoError
	case errors.Is(err, ErrNotAdmitted):
		return Denied
	case errors.Is(err, ErrNotFound) || errors.Is(err, ErrExists):
		return OtherAnswer
	case !errors.As(err, new(redis.Error)):
		return NoAnswer
	}
	switch meaningOf(err) {
	case noWrites, elsewhere, busy:
		return NotNow
	case full:
		return OutOfMemory
	case denied, twoSlots:
		return Denied
	case wrongType:
		return WrongType
	}
	return OtherAnswer
}

// Refused reports whether Redis says no and asking again can't help: authentication, permission, database,
// version, cluster, partitions.
func Refused(err error) bool { return KindOf(err) == Denied }

// Temporary reports whether asking again may help. No error is temporary, too.
func Temporary(err error) bool { return KindOf(err) <= NotNow }

// InTwoSlots reports whether err is a node of a cluster saying that our keys are not in one slot of it.
func InTwoSlots(err error) bool { return meaningOf(err) == twoSlots }

// OfOneSlot reports whether err is about one slot of a cluster: the node answers for others.
func OfOneSlot(err error) bool { return isNotHere(err) }

// takesNoWrites reports whether err is a server saying that it is no master, or
// none that may take writes: it has done nothing, and the address may lead to
// another by now.
func takesNoWrites(err error) bool { return meaningOf(err) == noWrites }
