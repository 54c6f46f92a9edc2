package duration

import (
	"math"
	"testing"
)

func TestParseRate(t *testing.T) {
	for text, want := range map[string]float64{"10/s": 10, "0.5/s": 0.5, "90/m": 1.5, "600/h": 1.0 / 6, "1/d": 1.0 / 86400, "1e3/s": 1000} {
		if got, err := ParseRate(text); err != nil || got != want {
			t.Errorf("%q: %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "10", "/s", "10/", "10/w", "x/s", "0/s", "-1/s", "NaN/s", "10 / s", "10/s/s"} {
		if got, err := ParseRate(text); err == nil {
			t.Errorf("%q: %v, want an error", text, got)
		}
	}
}

// Rate uses the shortest unit that makes the number at least 1, and ParseRate reads it back.
func TestRate(t *testing.T) {
	for rate, want := range map[float64]string{10: "10/s", 1: "1/s", 1.5: "1.5/s", 0.5: "30/m", 1.0 / 60: "1/m", 1.0 / 6: "10/m", 1.0 / 3600: "1/h", 1.0 / 86400: "1/d", 1_000_000: "1000000/s", 1.0 / 7: "8.571428571/m"} {
		got := Rate(rate)
		if again, err := ParseRate(got); got != want || err != nil || math.Abs(again-rate) > rate/1e9 {
			t.Errorf("%v: %q, read again as %v, %v; want %q", rate, got, again, err, want)
		}
	}
}
