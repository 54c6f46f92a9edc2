package cron

import (
	"testing"
	"time"
)

func TestZone(t *testing.T) {
	for name, want := range map[string]string{"": "UTC", "UTC": "UTC", "Europe/Berlin": "Europe/Berlin", "Local": "", "Mars": "", "../etc": ""} {
		zone, err := Zone(name)
		switch {
		case err == nil && zone.String() != want:
			t.Errorf("%q is %v, want %q", name, zone, want)
		case err != nil && (want != "" || err.Error() != "want the name of a time zone, such as Europe/Berlin, or UTC"):
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestText(t *testing.T) {
	for want, got := range map[string]string{"": Text("", 0), "@daily": Text("@daily", 0), "@every 1m30s": Text("", 90*time.Second)} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
