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
	topic string // that is backed off from, or empty
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
	return &verdict{err: err, kind: retryAfter, delay: delay}
}

// Snooze has the job delivered again after that time, without counting this attempt: it is
// not its time yet, nothing has failed.
func Snooze(delay time.Duration) error {
	return &verdict{err: fmt.Errorf("snoozed for %v", delay), kind: snooze, delay: delay}
}

// BackOff has nothing of the topic delivered for that long, to any consumer, and this job again after it, without counting this attempt: for a
// handler that was told to come more slowly, as by the status 429. A longer pause of the topic stays. See client.BackOff.
func BackOff(topic string, d time.Duration) error {
	return &verdict{err: fmt.Errorf("backed off from %s for %v", topic, d), kind: snooze, delay: d, topic: topic}
}

// Bury is err, but the job becomes a dead letter at once: trying again can't help.
func Bury(err error) error {
	if err == nil {
		err = errors.New("buried")
	}
	return &verdict{err: err, kind: bury}
}

// PanicError is a panic of a handler as an error. Its text has the stack.
type PanicError struct {
	Value any
	Stack []byte
}

func (p *PanicError) Error() string { return fmt.Sprintf("panic: %v\n%s", p.Value, p.Stack) }
