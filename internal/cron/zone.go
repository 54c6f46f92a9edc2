package cron

import (
	"errors"
	"strings"
	"time"

	"github.com/mix-basic/delayer/internal/duration"
)

// Zone returns the named time zone; "" is UTC. The host's zone is refused because hosts differ.
func Zone(name string) (*time.Location, error) {
	zone, err := time.LoadLocation(name)
	if err != nil || name == "Local" {
		return nil, errors.New("want the name of a time zone, such as Europe/Berlin, or UTC")
	}
	return zone, nil
}

// Text returns the text of a spec, or of an @every spec with that interval if spec is empty. It is "" if
// neither is given.
func Text(spec string, every time.Duration) string {
	if spec == "" && every != 0 {
		return "@every " + every.String()
	}
	return spec
}

// Short shortens the text for people: "@every 10m" instead of "@every 10m0s". It is for display only: another
// text would be another spec.
func Short(text string) string {
	if every, is := strings.CutPrefix(text, "@every "); is {
		if d, err := duration.Parse(every); err == nil {
			return "@every " + duration.Format(d)
		}
	}
	return text
}
