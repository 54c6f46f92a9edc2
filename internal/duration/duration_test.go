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

// Format leaves out units that are zero, and Parse reads it back, rounded up to milliseconds.
func TestFormat(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 30: "30ns", 1500 * time.Microsecond: "1.5ms", 250 * time.Millisecond: "250ms", time.Second: "1s", 90 * time.Second: "1m30s", 10 * time.Minute: "10m",
		time.Hour: "1h", 90 * time.Minute: "1h30m", time.Hour + time.Second: "1h0m1s", day: "24h", 7 * day: "7d", 36 * time.Hour: "36h", 60 * time.Hour: "2d12h", 2*day + time.Second: "2d1s",
		-time.Second: "-1s", -60 * time.Hour: "-2d12h", -time.Hour: "-1h", 36500 * day: "36500d", 36500*day + 1: "36500d1ns", 1<<63 - 1: "106751d23h47m16.854775807s", -1 << 63: "-106751d23h47m16.854775808s",
	} {
		got := Format(d)
		if again, err := Parse(got); got != want || err != nil || again < d || again-d >= time.Millisecond {
			t.Errorf("%v: %q, read again as %v, %v; want %q", d, got, again, err, want)
		}
	}
	if got := Bound(36500 * day); got != "100 years" {
		t.Errorf("a century is %q", got)
	}
}
