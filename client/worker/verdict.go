package worker

import (
	"errors"
	"fmt"
	"time"
)

// verdict is an error that says what becomes of the job.
type verdict struct {
	err   error
	kind  string
	delay time.Duration
}

// What is done with the job.
const (
	retryAfter = "retry"
	snooze     = "snooze"
	bury       = "bury"
)

func (v *verdict) Error() string { return v.err.Error() }

func (v *verdict) Unwrap() error { return v.err }

// RetryAfter is err, but the job is tried again after that time instead of the Backoff's.
func RetryAfter(err error, delay time.Duration) error {
	if err == nil {
		err = errors.New("retry")
	}
	return &verdict{err, retryAfter, delay}
}

// Snooze has the job delivered again after that time, without counting this attempt: it is
// not its time yet, nothing has failed.
func Snooze(delay time.Duration) error {
	return &verdict{fmt.Errorf("snoozed for %v", delay), snooze, delay}
}

// Bury is err, but the job becomes a dead letter at once: trying again can't help.
func Bury(err error) error {
	if err == nil {
		err = errors.New("buried")
	}
	return &verdict{err, bury, 0}
}

// PanicError is a panic of a handler as an error. Its text has the stack.
type PanicError struct {
	Value any
	Stack []byte
}

func (p *PanicError) Error() string { return fmt.Sprintf("panic: %v\n%s", p.Value, p.Stack) }
