package store

import (
	"errors"
	"fmt"

	"github.com/gomodule/redigo/redis"
)

// Error is an error to test for with errors.Is. It is a constant, so nobody can assign another.
type Error string

func (e Error) Error() string { return string(e) }

func (e Error) Is(target error) bool {
	return e == ErrReused && target == ErrExists || e == ErrGone && target == ErrLeaseLost
}

const (
	// ErrExists refuses a push because its ID exists.
	ErrExists Error = "job exists"
	// ErrReused is the ErrExists of a push whose content differs from the push that counts.
	ErrReused = ErrExists + ", and was pushed with another content"
	// ErrOtherTopic refuses a push that would change the topic of a job.
	ErrOtherTopic Error = "a job of another topic has this ID"
	// ErrOtherFailed means that a job is not stored because another one can't be.
	ErrOtherFailed Error = "another job of the same chunk can't be stored"
	// ErrLater leaves a push to another call, because this one has enough to do. Nothing was done.
	ErrLater Error = "it is for another call"
	// ErrNotFound means that there is no job of the ID.
	ErrNotFound Error = "no such job"
	// ErrReserved refuses a removal because the job is reserved.
	ErrReserved Error = "the job is reserved"
	// ErrEmpty means that no queue has a job.
	ErrEmpty Error = "no job is ready"
)

// OtherTopic is the ErrOtherTopic of a push.
type OtherTopic struct {
	Job    string // the topic of the job that has the ID
	Pushed string // the topic of the push
}

func (t OtherTopic) Error() string {
	return fmt.Sprintf("%v: it is of %s, and the push is to %s", ErrOtherTopic, Quote(t.Job), Quote(t.Pushed))
}

func (t OtherTopic) Is(target error) bool { return target == ErrOtherTopic }

// Kind classifies errors for callers.
type Kind int

const (
	NoError     Kind = iota
	NoAnswer         // the network, a timeout, or an error that is not of Redis
	NotNow           // loading, a replica, failing over, busy: a retry may help
	OutOfMemory      // nothing was stored
	Denied           // by permissions, or by what this Redis is: a retry can't help
	WrongType        // a key has another type
	OtherAnswer
)

// KindOf returns the kind of an error.
func KindOf(err error) Kind {
	switch {
	case err == nil:
		return NoError
	case errors.Is(err, ErrNotAdmitted):
		return Denied
	case errors.Is(err, ErrNotFound) || errors.Is(err, ErrExists) || errors.Is(err, ErrOtherTopic) || errors.Is(err, ErrReserved):
		return OtherAnswer
	case !errors.As(err, new(redis.Error)):
		return NoAnswer
	}
	switch meaningOf(err) {
	case noWrites, elsewhere, busy:
		return NotNow
	case full:
		return OutOfMemory
	case denied, noPermission, twoSlots:
		return Denied
	case wrongType:
		return WrongType
	}
	return OtherAnswer
}

// NoSuch makes ErrNotFound say what was not found, where that is no job.
func NoSuch(what string, err error) error {
	if err == ErrNotFound {
		return noSuch(what)
	}
	return err
}

type noSuch string

func (e noSuch) Error() string { return "no such " + string(e) }

func (noSuch) Is(target error) bool { return target == ErrNotFound }

// Refused reports whether Redis refuses and a retry can't help: authentication, permission, database, version, cluster, partitions.
func Refused(err error) bool { return KindOf(err) == Denied }

// LacksPermission reports whether Redis refuses because its user lacks a permission.
func LacksPermission(err error) bool { return meaningOf(err) == noPermission }

// Temporary reports whether a retry may help, or there is no error.
func Temporary(err error) bool { return KindOf(err) <= NotNow }

// InTwoSlots reports whether a node of a cluster refused keys that are not in one slot.
func InTwoSlots(err error) bool { return meaningOf(err) == twoSlots }

// takesNoWrites reports whether a server takes no writes, for example as a replica. It has changed nothing, and the address may lead to a
// master by now.
func takesNoWrites(err error) bool { return meaningOf(err) == noWrites }
