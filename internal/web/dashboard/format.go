package dashboard

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// number is n with its thousands apart.
func number(n int) string {
	digits := strconv.Itoa(n)
	sign := ""
	if n < 0 {
		sign, digits = "−", digits[1:]
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return sign + digits
}

// rate is a number a second.
func rate(n float64) string {
	if n < 9.95 {
		return strings.TrimSuffix(strconv.FormatFloat(n, 'f', 1, 64), ".0")
	}
	return number(int(n + 0.5))
}

// size is a number of bytes.
func size(bytes int64) string {
	if bytes < 1024 {
		return number(int(bytes)) + " B"
	}
	value, unit := float64(bytes), ""
	for _, unit = range []string{"KiB", "MiB", "GiB", "TiB"} {
		if value /= 1024; value < 1024 {
			break
		}
	}
	return strconv.FormatFloat(value, 'f', 1, 64) + " " + unit
}

// Duration is d in one or two units, the larger the coarser.
func (l language) Duration(d time.Duration) string {
	d = max(d, 0)
	switch {
	case d < 10*time.Millisecond:
		return l.T("unit.ms", strings.TrimSuffix(fmt.Sprintf("%.1f", float64(d)/float64(time.Millisecond)), ".0"))
	case d < time.Second:
		return l.T("unit.ms", strconv.Itoa(int(d.Milliseconds())))
	case d < 10*time.Second:
		return l.T("unit.s", strings.TrimSuffix(fmt.Sprintf("%.1f", d.Seconds()), ".0"))
	case d < time.Minute:
		return l.T("unit.s", strconv.Itoa(int(d.Seconds())))
	}
	units := []struct {
		key string
		of  time.Duration
	}{{"unit.d", 24 * time.Hour}, {"unit.h", time.Hour}, {"unit.min", time.Minute}, {"unit.s", time.Second}}
	for i, u := range units {
		if d < u.of {
			continue
		}
		text := l.T(u.key, number(int(d/u.of)))
		if rest := d % u.of; i+1 < len(units) && d < 10*u.of && rest >= units[i+1].of {
			text += " " + l.T(units[i+1].key, strconv.Itoa(int(rest/units[i+1].of)))
		}
		return text
	}
	return ""
}

// moment is a time as it is shown: by script in the browser's zone, without it in UTC.
type moment struct {
	Exact, UTC, Relative string
}

// moment is how the time is seen from now.
func (l language) moment(t, now time.Time) *moment {
	if t.IsZero() {
		return nil
	}
	m := &moment{Exact: t.UTC().Format("2006-01-02T15:04:05.000Z"), UTC: t.UTC().Format("2006-01-02 15:04:05 UTC")}
	switch away := t.Sub(now); {
	case t.Year() >= 9999:
		m.Relative = l.T("time.never")
	case away > 0:
		m.Relative = l.T("time.in", l.Duration(away))
	default:
		m.Relative = l.T("time.ago", l.Duration(-away))
	}
	return m
}
