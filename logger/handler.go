package logger

import (
	"context"
	"log/slog"
	"slices"
)

// Handler is for slog.New. Records up to [slog.LevelInfo] become [info] lines of the access log, those from
// [slog.LevelWarn] [error] lines of the error log, and those between them, such as the end of an error,
// [info] lines of the error log. There is no debug level. The time is when the line is written.
//
// Attributes follow the message in the original's format,
//
//	message, Topic: topic, IDs: [id1,id2]
//
// for the keys "topic" and "ids"; other keys are written as they are. In JSON they are fields next to
// "message", with "_base64" after the key if the value is not UTF-8. Keys in groups are prefixed with the
// group's name and a dot.
func (l *Logger) Handler() slog.Handler { return handler{Logger: l} }

type handler struct {
	*Logger
	with  []slog.Attr
	group string // names, each followed by a dot
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
