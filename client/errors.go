package client

import (
	"errors"
	"fmt"
	"time"

	"github.com/mix-basic/delayer/internal/duration"
	"github.com/mix-basic/delayer/internal/store"
	"github.com/mix-basic/delayer/internal/wait"
)

// Errors to test for with errors.Is; as constants, nobody can change them. Any other error is Redis's or the network's, with the operation in front.
const (
	// ErrEmpty: no job is ready.
	ErrEmpty = store.ErrEmpty
	// ErrExists: the ID exists, and the push is refused in that case.
	ErrExists = store.ErrExists
	// ErrOtherTopic: the push would change the topic of a job, which takes [Replace]. The message names both topics.
	ErrOtherTopic = store.ErrOtherTopic
	// ErrPaused: the topic is paused with another end or note, and the pause is refused in that case.
	ErrPaused = store.Error("it is paused already, with another end or note")
	// ErrReused: also ErrExists; the accepted push of that ID had other content. See OnceAs.
	ErrReused = store.ErrReused
	// ErrNotFound: there is no job with that ID: it never existed, or was popped, completed or removed, or its
	// lifetime has ended.
	ErrNotFound = store.ErrNotFound
	// ErrReserved: the job is reserved, and RemoveUnlessReserved leaves it alone.
	ErrReserved = store.ErrReserved
	// ErrLeaseLost: the job is no longer reserved for this Delivery. Nothing was changed.
	ErrLeaseLost = store.ErrLeaseLost
	// ErrExhausted: the job was not returned, because its attempts are used up. It is a dead letter now.
	ErrExhausted = store.ErrExhausted
	// ErrOtherFailed: the job was not stored because another one of its chunk could not be. See PushBatch.
	ErrOtherFailed = store.ErrOtherFailed
	// ErrInvalid: an argument is wrong; the message says which one and what would be right. Nothing was sent.
	ErrInvalid = store.Error("invalid")
	// ErrLost: the connection broke before the reply to a pop arrived. If Redis had taken a job, it is lost.
	ErrLost = wait.ErrLost
	// ErrClosed: the Client is closed.
	ErrClosed = store.Error("client is closed")
)

// ReplicasError is the error of a push with [Replicas]; test for it with errors.As. The job is stored, but fewer
// replicas are known to have it.
type ReplicasError struct {
	ID   string // the job's
	Want int    // how many replicas should have it
	Have int    // how many had it in time; -1 if unknown, because of Err
	Err  error
}

func (e *ReplicasError) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("the job is stored, but it is not known whether %d replicas have it: %v", e.Want, e.Err)
	}
	return fmt.Sprintf("the job is stored, but %d of %d replicas have it", e.Have, e.Want)
}

// Unwrap returns Err.
func (e *ReplicasError) Unwrap() error { return e.Err }

func tooFewReplicas(job store.Delayed, have int, err error) error {
	return &ReplicasError{job.StoredID(), job.Replicas.N, have, err}
}

// isRefused reports whether a push has changed nothing because of the ID's job, or an earlier push of the ID.
func isRefused(err error) bool { return errors.Is(err, ErrExists) || errors.Is(err, ErrOtherTopic) }

func isStored(err error) bool { return err == nil || errors.As(err, new(*ReplicasError)) }

func invalid(field, why string) error {
	return fmt.Errorf("%w %s: %s", ErrInvalid, field, why)
}

// checkDelay checks a delay, of which a negative one means at once: it is the rest of a computed one.
func checkDelay(d time.Duration) error {
	switch {
	case d > store.MaxDelay:
		return invalid("delay", fmt.Sprintf("%s is more than %s", duration.Format(d), duration.Bound(store.MaxDelay)))
	case d > 0 && d < time.Millisecond:
		return checkUnit("delay", d)
	}
	return nil
}

func checkLength(field string, d, most time.Duration) error {
	if d <= 0 || d > most {
		return invalid(field, fmt.Sprintf("%s is not above 0 and up to %s", duration.Format(d), duration.Bound(most)))
	}
	return checkUnit(field, d)
}

// checkUnit refuses a duration that was probably given without a unit.
func checkUnit(field string, d time.Duration) error {
	return refusal(field, store.CheckUnit(d))
}

func checkSize(field, value string, most int) error {
	return refusal(field, store.CheckSize(value, most))
}

// refusal makes another package's error ErrInvalid, with the field in front.
func refusal(field string, err error) error {
	if err == nil {
		return nil
	}
	return invalid(field, err.Error())
}

func checkTimeout(d time.Duration) error {
	if d < 0 {
		return invalid("timeout", "it is negative; 0 waits without limit")
	}
	return checkUnit("timeout", d)
}

func checkID(id string) error {
	if id == "" {
		return invalid("id", "it is empty")
	}
	return nil
}
