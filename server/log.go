package server

import (
	"bytes"
	"context"
	"log/slog"
	"time"

	"github.com/mix-basic/delayer/internal/store"
)

// LevelRecovered is the level at which a Server says that a failure is over.
const LevelRecovered = slog.LevelInfo + 2

// Logger is told what happened, one message a line. It must be safe for
// concurrent use. Where it is made of a slog.Handler, as *logger.Logger is, which its
// method Handler returns, that is used instead.
type Logger interface {
	Info(message string)
	Error(message string)
}

func newLog(o Options) *slog.Logger {
	if o.Log != nil {
		return o.Log
	}
	switch l := o.Logger.(type) {
	case nil:
		return slog.New(slog.DiscardHandler)
	case interface{ Handler() slog.Handler }:
		return slog.New(l.Handler())
	default:
		return slog.New(lines{l})
	}
}

// lines tell a Logger of the server's records, as the original words them.
type lines struct{ Logger }

func (l lines) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }

func (l lines) Handle(_ context.Context, r slog.Record) error {
	line := r.Message
	r.Attrs(func(a slog.Attr) bool {
		switch a.Key {
		case "ids":
			ids, _ := a.Value.Any().(jobIDs)
			line += ", IDs: [" + string(bytes.Join(ids.Bytes(), []byte{','})) + "]"
		case "topic":
			line += ", Topic: " + a.Value.String()
		case "partition":
			line += ", Partition: " + a.Value.String()
		}
		return true
	})
	if r.Level < slog.LevelWarn {
		l.Info(line)
	} else {
		l.Error(line)
	}
	return nil
}

func (l lines) WithAttrs([]slog.Attr) slog.Handler { return l } // which a Server does not do
func (l lines) WithGroup(string) slog.Handler      { return l }

// inPartition is a handler whose records say of which partition they are.
type inPartition struct {
	slog.Handler
	number int
}

func (h inPartition) Handle(ctx context.Context, r slog.Record) error {
	r.AddAttrs(slog.Int("partition", h.number))
	return h.Handler.Handle(ctx, r)
}

// logJobs says something of jobs. It leaves out what slog.Logger adds to a record at
// some cost: a batch may be a line for each of its jobs.
func logJobs(log *slog.Logger, level slog.Level, message, topic string, ids store.IDs) {
	h, ctx := log.Handler(), context.Background()
	if !h.Enabled(ctx, level) {
		return
	}
	r := slog.NewRecord(time.Now(), level, message, 0)
	if topic != "" {
		r.AddAttrs(slog.String("topic", topic))
	}
	r.AddAttrs(slog.Any("ids", jobIDs(ids)))
	h.Handle(ctx, r)
}

// jobIDs are IDs as a log takes them: a list of texts. Bytes is for handlers that
// can do without strings.
type jobIDs store.IDs

func (ids jobIDs) Bytes() [][]byte {
	list := make([][]byte, len(ids))
	for i, id := range ids {
		list[i] = id.([]byte)
	}
	return list
}

func (ids jobIDs) LogValue() slog.Value {
	list := make([]string, len(ids))
	for i, id := range ids {
		list[i] = string(id.([]byte))
	}
	return slog.AnyValue(list)
}
