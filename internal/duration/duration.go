// Package duration reads durations as people write them.
package duration

import (
	"errors"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Wanted says how durations are written.
const Wanted = "seconds, or numbers with units: 250ms, 30m, 1h30m, 7d, 1d12h"

var errNone = errors.New("want " + Wanted)

var (
	number = regexp.MustCompile(`^(\d+\.?\d*|\.\d+)$`)
	// parts are numbers with units, the days first.
	parts = regexp.MustCompile(`^(?:(\d+\.?\d*|\.\d+)d)?((?:(?:\d+\.?\d*|\.\d+)(?:ns|us|µs|μs|ms|s|m|h))*)$`)
)

// Parse reads seconds, as the original's clients take them, or numbers with units: ms, s, m, h or
// d. Several may stand together (1h30m, 1d12h); days come first. There are no exponents.
func Parse(text string) (time.Duration, error) {
	unsigned, isNegative := strings.CutPrefix(text, "-")
	d, err := parse(strings.TrimPrefix(unsigned, "+"))
	if isNegative {
		d = -d
	}
	return d, err
}

func parse(text string) (time.Duration, error) {
	if number.MatchString(text) {
		text += "s"
	}
	found := parts.FindStringSubmatch(text)
	if found == nil || text == "" {
		return 0, errNone
	}
	var days, rest time.Duration
	var err error
	if found[1] != "" {
		n, _ := strconv.ParseFloat(found[1], 64)
		days, err = time.ParseDuration(strconv.FormatFloat(n*24, 'f', -1, 64) + "h")
	}
	if found[2] != "" && err == nil {
		rest, err = time.ParseDuration(found[2])
	}
	if err == nil && days+rest < days {
		err = errors.New("this is too long")
	}
	return days + rest, err
}
