package client

import (
	"errors"
	"fmt"
	"time"

	"github.com/mix-basic/delayer/internal/store"
	"github.com/mix-basic/delayer/internal/wait"
)

// What callers test for with errors.Is. Any other error is Redis's or the
// network's, with the operation in front.
var (
	// ErrEmpty: no job is ready.
	ErrEmpty = store.ErrEmpty
	// ErrExists: the ID exists, and the push was to be refused then.
	ErrExists = store.ErrExists
	// ErrReused: ErrExists, and the push of that ID which counts said something else; see OnceAs.
	ErrReused = store.ErrReused
	// ErrNotFound: there is no job of that ID, be it that there never was or
	// that it was popped, removed, or outlived its time.
	ErrNotFound = store.ErrNotFound
	// ErrLeaseLost: the job is not reserved for this Delivery any more. Nothing was changed.
	ErrLeaseLost = store.ErrLeaseLost
	// ErrExhausted: the job was not given back, as its attempts are used up. It is a
	// dead letter now.
	ErrExhausted = store.ErrExhausted
	// ErrInvalid: an argument is wrong; the message says which and what would
	// be right. Nothing was sent.
	ErrInvalid = errors.New("invalid")
	// ErrLost: the answer to a pop did not arrive, as the connection broke. If
	// Redis had taken a job, that is lost: whoever pops takes the job over.
	ErrLost = wait.ErrLost
	// ErrClosed: the Client is closed.
	ErrClosed = errors.New("client is closed")
)

// ReplicasError is the error of a push with [Replicas], tested for with errors.As: the job is stored, but fewer
// replicas are known to have it. ID is the job's. Want is how many are to have it; Have is how many had it in time, or -1 if that
// is not known because of Err.
type ReplicasError = store.ReplicasError

// isStored reports whether a push has stored its job.
func isStored(err error) bool { return err == nil || errors.As(err, new(*ReplicasError)) }

// MaxDelay is the longest delay and lifetime, 100 years.
const MaxDelay = 100 * 365 * 24 * time.Hour

func invalid(field, why string) error {
	return fmt.Errorf("%w %s: %s", ErrInvalid, field, why)
}

func checkDelay(field string, d time.Duration) error {
	if d < 0 || d > MaxDelay {
		return invalid(field, fmt.Sprintf("%v is not from 0 to %v", d, MaxDelay))
	}
	return nil
}

// checkLength refuses a lease, a lifetime or the like that is not above 0 and up to most.
func checkLength(field string, d, most time.Duration) error {
	if d <= 0 || d > most {
		return invalid(field, fmt.Sprintf("%v is not above 0 and up to %v", d, most))
	}
	return checkUnit(field, d)
}

// checkUnit refuses what must have been meant to be longer.
func checkUnit(field string, d time.Duration) error {
	return refusal(field, store.CheckUnit(d))
}

// note says once, to the Client's logger, that a delay or a timeout may lack its unit. It may also be the
// rest of one that was computed, and is taken.
func (c *Client) note(what string, d time.Duration) {
	if store.LacksUnit(d) && !c.unitWarned.Swap(true) {
		c.logger.Warn(fmt.Sprintf("delayer: a %s of %v is taken as it is, but %s; this is said once", what, d, store.Units))
	}
}

// checkSize refuses a text that is too long.
func checkSize(field, value string, most int) error {
	return refusal(field, store.CheckSize(value, most))
}

// refusal makes an error of another package's check ErrInvalid, with the field in front.
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
	return nil
}

func checkID(id string) error {
	if id == "" {
		return invalid("id", "it is empty")
	}
	return nil
}
