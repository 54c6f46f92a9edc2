package store

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/mix-basic/delayer/internal/duration"
)

// The maximum size of texts, in bytes. Redis has no such limits for IDs and topics, but a longer one slows down all jobs that are moved with
// it. A body beyond MaxBody breaks the connection.
const (
	MaxID            = 4 << 10
	MaxTopic         = 1 << 10
	MaxBody          = 512 << 20
	MaxNote          = 1000 // of a Pause
	MaxTag           = 250  // of a Limit
	MaxScheduleName  = 200
	MaxScheduleOwner = 200
	MaxGroupKey      = 256 // which leaves room for a topic in the group's ID
)

// The bounds of Replicas.
const (
	MaxReplicas        = 100
	MaxReplicasTimeout = 10 * time.Second
)

// MaxDelay is the longest delay and lifetime, 100 years.
const MaxDelay = 100 * 365 * 24 * time.Hour

// DefaultMaxAttempts is how often a job is delivered to consumers that reserve if neither its producer nor the consumer says
// so. With worker.DefaultBackoff that takes about a day.
const DefaultMaxAttempts = 25

// The bounds of a Limit.
const (
	MaxConcurrency = 1_000_000
	MinRate        = 1.0 / 86400 // one a day
	MaxRate        = 1_000_000
)

// CheckSize refuses a text that is too long.
func CheckSize(text string, most int) error {
	if len(text) > most {
		return fmt.Errorf("it has %d bytes: want %d at most", len(text), most)
	}
	return nil
}

// LacksUnit reports whether a duration from a Go program was probably meant to be longer: a bare 30 is 30 ns.
func LacksUnit(d time.Duration) bool { return d > 0 && d < time.Millisecond }

// Units explains such a time to the user who gave it.
const Units = "in Go a number without a unit is in nanoseconds, and 30 seconds are 30*time.Second"

// CheckUnit refuses a duration that lacks its unit.
func CheckUnit(d time.Duration) error {
	if LacksUnit(d) {
		return fmt.Errorf("%s is less than a millisecond; %s", duration.Format(d), Units)
	}
	return nil
}

// CheckScheduleName refuses names that no schedule may have.
func CheckScheduleName(name string) error {
	switch {
	case name == "":
		return errors.New("it is empty")
	case strings.ContainsFunc(name, func(r rune) bool { return r == '{' || r == '}' || r < ' ' || r == 0x7f }):
		return errors.New("want no braces and no control characters")
	}
	return CheckSize(name, MaxScheduleName)
}

// CheckScheduleTopic refuses topics that the jobs of a schedule may not have.
func CheckScheduleTopic(topic string) error {
	switch topic {
	case "":
		return errors.New("it is empty")
	case ScheduleTopic:
		return errors.New("it is that of schedules")
	}
	return CheckSize(topic, MaxTopic)
}
