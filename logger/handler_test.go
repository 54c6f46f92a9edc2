package logger

import (
	"errors"
	"log/slog"
	"slices"
	"testing"
	"time"
)

// All kinds of attributes follow the message.
func TestHandler(t *testing.T) {
	for json, want := range map[bool]writes{
		false: {"[error] " + stamp + "m, id: 7, g.wait: 2s, g.h.error: a\\nb, g.h.topic: x\\xff, g.h.i.ids: [1 2]\n"},
		true: {`{"time":"2018-10-21T11:24:04.005+02:00","level":"error","message":"m","id":7,"g.wait":2000000000,` +
			`"g.h.error":"a\nb","g.h.topic_base64":"eP8=","g.h.i.ids":["1","2"]}` + "\n"},
	} {
		var console writes
		l := open(t, Options{Console: &console, JSON: json})
		log := slog.New(l.Handler()).With("id", 7).WithGroup("g").With("wait", 2*time.Second)
		log.With("unused", 1) // does not change log
		log.WithGroup("h").Warn("m", "error", errors.New("a\nb"), slog.Attr{}, "topic", "x\xff", slog.Group("i", "ids", []string{"1", "2"}))
		log.Debug("d")
		l.Close()
		if !slices.Equal(console, want) {
			t.Errorf("got %q\nwant %q", console, want)
		}
	}
}
