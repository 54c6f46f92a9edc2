package worker

import (
	"errors"
	"fmt"
	"time"
)

// verdict is an error that decides what happens to the job.
type verdict struct {
	err   error
	kind  string
	delay time.Duration
	topic string // topic to back off from, or ""
}

// What happens to the job.
const (
	retryAfter = "retry"
	snooze     = "snooze"
	bury       = "bury"
)

func (v *verdict) Error() string { return v.err.Error() }

func (v *verdict) Unwrap() error { return v.err }

// RetryAfter returns err, but the job is retried after that delay instead of Backoff's.
func RetryAfter(err error, delay time.Duration) error {
	if err == nil {
		err = errors.New("retry")
	}
	return &verdict{err: err, kind: retryAfter, delay: delay}
}

// Snooze makes the job be delivered again after that delay without counting the attempt, for a job whose time
// has not come although nothing failed.
func Snooze(delay time.Duration) error {
	return &verdict{err: fmt.Errorf("snoozed for %v", delay), kind: snooze, delay: delay}
}

// BackOff stops delivery of the topic to all consumers for that time, and delivers this job again after it
// without counting the attempt. Use it when another service asks to slow down, for example with HTTP 429. It
// never shortens a longer pause of the topic. See client.BackOff.
func BackOff(topic string, d time.Duration) error {
	return &verdict{err: fmt.Errorf("backed off from %s for %v", topic, d), kind: snooze, delay: d, topic: topic}
}

// Bury returns err, but the job becomes a dead letter at once: retrying cannot help.
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
