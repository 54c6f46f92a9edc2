package server

import (
	"bytes"
	"log/slog"
	"testing"

	"github.com/mix-basic/delayer/internal/store"
)

// Any handler gets IDs as text; a handler that needs no strings gets them as bytes.
func TestLog(t *testing.T) {
	var out bytes.Buffer
	text := slog.NewTextHandler(&out, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}})
	say := func(o Options) {
		log := New(nil, o).log
		logJobs(log, slog.LevelInfo, "ready", "t", store.IDs{[]byte("1"), []byte("2")})
		log.Log(t.Context(), levelRecovered, "over")
		log.Error("broken")
	}
	lines := new(recorder)
	say(Options{Logger: lines.logger()})
	info, errors := lines.lines()
	if len(info) != 2 || info[0] != "ready, Topic: t, IDs: [1,2]" || info[1] != "over" || len(errors) != 1 || errors[0] != "broken" {
		t.Errorf("lines %q, errors %q", info, errors)
	}
	say(Options{Logger: slog.New(text)})
	if got, want := out.String(), "level=INFO msg=ready topic=t ids=\"[1 2]\"\nlevel=INFO+2 msg=over\nlevel=ERROR msg=broken\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	say(Options{}) // without effect
}
