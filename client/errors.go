package client

import (
	"errors"
	"fmt"
	"time"

	"github.com/mix-basic/delayer/internal/store"
)

// What callers test for with errors.Is. Any other error is Redis's or the
// network's, with the operation in front.
var (
	// ErrEmpty: no job is ready.
	ErrEmpty = store.ErrEmpty
	// ErrExists: the ID exists, and the push was to be refused then.
	ErrExists = store.ErrExists
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
	ErrLost = errors.New("the answer was lost, and with it the job if there was one")
	// ErrClosed: the Client is closed.
	ErrClosed = errors.New("client is closed")
)

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

// What a push may be at most. Redis has no such limits, but what is longer makes
// all jobs slow that are moved together with it.
const (
	maxID    = 4 << 10
	maxTopic = 1 << 10
)

// checkSize refuses what is too long for a push.
func checkSize(field, value string, most int) error {
	if len(value) > most {
		return invalid(field, fmt.Sprintf("it has %d bytes: want %d at most", len(value), most))
	}
	return nil
}

func checkTimeout(d time.Duration) error {
	if d < 0 {
		return invalid("timeout", "it is negative; 0 waits without limit")
	}
	return nil
}

func checkTopics(topics []string) error {
	for _, topic := range topics {
		if topic == "" {
			return invalid("topic", "it is empty")
		}
	}
	return nil
}

func checkID(id string) error {
	if id == "" {
		return invalid("id", "it is empty")
	}
	return nil
}
