package cron

import (
	"errors"
	"strings"
	"time"
)

var errZone = errors.New("want the name of a time zone, such as Europe/Berlin, or UTC")

// Zone is the time zone of that name; of "" it is UTC. That of the host is refused, as hosts differ.
func Zone(name string) (*time.Location, error) {
	zone, err := time.LoadLocation(name)
	if err != nil || name == "Local" {
		return nil, errZone
	}
	return zone, nil
}

// Text is a spec as Parse reads it, of a spec and, if that is empty, the time from each moment to the next. Of neither it is "".
func Text(spec string, every time.Duration) string {
	if spec == "" && every != 0 {
		return "@every " + every.String()
	}
	return spec
}

// Short is the text without what says nothing, for people to read: that of ten minutes is "@every 10m", not "@every 10m0s". What is kept
// stays what it is, for another text is another spec.
func Short(text string) string {
	if !strings.HasPrefix(text, "@every ") {
		return text
	}
	if whole, ok := strings.CutSuffix(text, "m0s"); ok {
		text = whole + "m"
	}
	if whole, ok := strings.CutSuffix(text, "h0m"); ok {
		text = whole + "h"
	}
	return text
}
