// Package duration reads durations as people write them.
package duration

import (
	"strconv"
	"strings"
	"time"
)

// Parse reads seconds, as the original's clients take them, or a number with a unit: ms, s, m, h
// or d. As in Go, several may stand together (1h30m), but for days.
func Parse(text string) (time.Duration, error) {
	number, isDays := strings.CutSuffix(text, "d")
	n, err := strconv.ParseFloat(number, 64)
	switch {
	case err != nil:
		return time.ParseDuration(text)
	case isDays:
		n *= 24 * 60 * 60
	}
	return time.ParseDuration(strconv.FormatFloat(n, 'f', -1, 64) + "s")
}
