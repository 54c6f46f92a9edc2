package logger

import (
	"context"
	"log/slog"
	"slices"
)

// Handler is for slog.New. A record of up to [slog.LevelInfo] becomes an [info] line of
// the access log, one of [slog.LevelWarn] or more an [error] line of the error log, and
// one between them, such as that an error is over, an [info] line of the error log. There
// is no debugging. The time is that of writing.
//
// Attributes follow the message as the original has them,
//
//	message, Topic: topic, IDs: [id1,id2]
//
// where the keys are "topic" and "ids"; others stay as they are. In JSON they are fields
// beside "message", with "_base64" behind the key where the value is no UTF-8. A group's
// name and a dot stand before its keys.
func (l *Logger) Handler() slog.Handler { return handler{Logger: l} }

type handler struct {
	*Logger
	with  []slog.Attr
	group string // with a dot behind each name
}

func (h handler) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }

func (h handler) Handle(_ context.Context, r slog.Record) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	e, to := entry{level: info, message: r.Message, attrs: append(h.attrs[:0], h.with...)}, h.access
	r.Attrs(func(a slog.Attr) bool {
		e.attrs = flatten(e.attrs, h.group, a)
		return true
	})
	if r.Level > slog.LevelInfo {
		to = h.errors
	}
	if r.Level >= slog.LevelWarn {
		e.level = failed
	}
	h.write(to, h.console, e)
	clear(e.attrs)
	h.attrs = e.attrs
	return nil
}

func (h handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	h.with = slices.Clip(h.with)
	for _, a := range attrs {
		h.with = flatten(h.with, h.group, a)
	}
	return h
}

func (h handler) WithGroup(name string) slog.Handler {
	h.group += name + "."
	return h
}

// flatten appends an attribute, or those of a group.
func flatten(to []slog.Attr, group string, a slog.Attr) []slog.Attr {
	switch {
	case a.Value.Kind() == slog.KindGroup:
		if a.Key != "" {
			group += a.Key + "."
		}
		for _, member := range a.Value.Group() {
			to = flatten(to, group, member)
		}
	case !a.Equal(slog.Attr{}):
		a.Key = group + a.Key
		to = append(to, a)
	}
	return to
}
