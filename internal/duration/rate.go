package duration

import (
	"errors"
	"strconv"
	"strings"
)

// units lists the units of a rate, shortest first, with their length in seconds.
var units = []struct {
	name    string
	seconds float64
}{{"s", 1}, {"m", 60}, {"h", 3600}, {"d", 86400}}

// ErrRate is returned for a text that is not a rate.
var ErrRate = errors.New("want a number a second, minute, hour or day, such as 10/s or 600/h")

// ParseRate reads a rate per second, minute, hour or day, such as 10/s or 600/h, and returns it per second.
func ParseRate(text string) (float64, error) {
	number, per, _ := strings.Cut(text, "/")
	n, err := strconv.ParseFloat(number, 64)
	for _, unit := range units {
		if per == unit.name && err == nil && n > 0 {
			return n / unit.seconds, nil
		}
	}
	return 0, ErrRate
}

// Rate formats a rate per second for ParseRate, in the shortest unit that makes the number at least
// 1.
func Rate(perSecond float64) string {
	unit := units[0]
	for _, longer := range units[1:] {
		if perSecond*unit.seconds < 0.9999999 {
			unit = longer
		}
	}
	return strconv.FormatFloat(perSecond*unit.seconds, 'g', 10, 64) + "/" + unit.name
}
