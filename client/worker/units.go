package worker

import (
	"fmt"
	"time"
)

// tooShort reports whether a time must have been meant to be longer: in Go a bare number is one of nanoseconds.
func tooShort(d time.Duration) bool { return d > 0 && d < time.Millisecond }

// checkUnit refuses such a time.
func checkUnit(field string, d time.Duration) error {
	if tooShort(d) {
		return invalid(field, fmt.Sprintf("%v is less than a millisecond; in Go a number without a unit is in nanoseconds, and 30 seconds are 30*time.Second", d))
	}
	return nil
}
