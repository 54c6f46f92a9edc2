package duration

import (
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"0": 0, "30": 30 * time.Second, "1.5": 1500 * time.Millisecond, "1000.0": 1000 * time.Second, "-1": -time.Second, "+5": 5 * time.Second, ".5": time.Second / 2, "0.0001": time.Millisecond, "1.0001": 1001 * time.Millisecond, "-0.0001": -100 * time.Microsecond,
		"250ms": 250 * time.Millisecond, "30m": 30 * time.Minute, "1h30m": 90 * time.Minute, "7d": 7 * 24 * time.Hour, "0.5d": 12 * time.Hour,
		"1d12h": 36 * time.Hour, "1d1h1m1s": 25*time.Hour + 61*time.Second, "-1d12h": -36 * time.Hour, "1.5d.5h": 36*time.Hour + 30*time.Minute, "1µs": time.Millisecond,
	} {
		if got, err := Parse(text); err != nil || got != want {
			t.Errorf("%q: %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", " ", "d", "x", "1x", "1 s", "NaN", "Inf", "-Inf", "1e400", "1e18", "1e3", "1e3s", "1e1d", "--1", "+-1", "-+1", "106752d", "106751d24h", "1h1d", "1d1d", "1d 1h", "0x1", "１"} {
		if got, err := Parse(text); err == nil {
			t.Errorf("%q: %v, want an error", text, got)
		}
	}
}
