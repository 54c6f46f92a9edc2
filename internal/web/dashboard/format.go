package dashboard

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// number formats an integer with thousands separators.
func number(n any) string {
	sign := ""
	digits, negative := strings.CutPrefix(fmt.Sprint(n), "-")
	if negative {
		sign = "−"
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return sign + digits
}

func few(n float64) string {
	if n < 10 {
		return strings.TrimSuffix(strconv.FormatFloat(n, 'f', 1, 64), ".0")
	}
	return number(int(n))
}

// rate formats a number per second.
func rate(n float64) string {
	if n > 10 {
		n = math.Round(n)
	}
	return few(n)
}

// size formats a number of bytes.
func size(bytes int64) string {
	if bytes < 1024 {
		return number(bytes) + " B"
	}
	value, unit := float64(bytes), ""
	for _, unit = range []string{"KiB", "MiB", "GiB", "TiB"} {
		if value /= 1024; value < 1024 {
			break
		}
	}
	return strconv.FormatFloat(value, 'f', 1, 64) + " " + unit
}

// Duration formats d in one or two units, coarser the longer it is.
func (l language) Duration(d time.Duration) string {
	d = max(d, 0)
	switch {
	case d < time.Second:
		return l.T("unit.ms", few(float64(d)/float64(time.Millisecond)))
	case d < time.Minute:
		return l.T("unit.s", few(d.Seconds()))
	}
	units := []struct {
		key string
		of  time.Duration
	}{{"unit.d", 24 * time.Hour}, {"unit.h", time.Hour}, {"unit.min", time.Minute}, {"unit.s", time.Second}}
	for i, u := range units {
		if d < u.of {
			continue
		}
		text := l.T(u.key, number(int64(d/u.of)))
		if rest := d % u.of; i+1 < len(units) && d < 10*u.of && rest >= units[i+1].of {
			text += " " + l.T(units[i+1].key, strconv.Itoa(int(rest/units[i+1].of)))
		}
		return text
	}
	return ""
}

// instant is a time for display: in the browser's zone with scripts, in UTC without.
type instant struct {
	Exact, UTC, Relative string
}

// instant formats t as seen from now.
func (l language) instant(t, now time.Time) *instant {
	if t.IsZero() {
		return nil
	}
	m := &instant{Exact: t.UTC().Format("2006-01-02T15:04:05.000Z"), UTC: t.UTC().Format("2006-01-02 15:04:05 UTC")}
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
