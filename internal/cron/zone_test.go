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

func TestShort(t *testing.T) {
	for text, want := range map[string]string{
		"@every 10m0s": "@every 10m", "@every 1h0m0s": "@every 1h", "@every 1h30m0s": "@every 1h30m", "@every 10h0m1s": "@every 10h0m1s", "@every 10s": "@every 10s",
		"@every 500ms": "@every 500ms", "@every 10m": "@every 10m", "@daily": "@daily", "0 7 * * *": "0 7 * * *", "": "",
	} {
		got := Short(text)
		if got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
		if before, err := Parse(text); err == nil {
			if after, err := Parse(got); err != nil || after.Every() != before.Every() {
				t.Errorf("%q is not %q: %v", got, text, err)
			}
		}
	}
}
