package server

import (
	"context"
	"log/slog"
	"time"

	"github.com/mix-basic/delayer/internal/store"
)

// levelRecovered is for the line that says that a failure is over. Package logger writes it to the error log.
const levelRecovered = slog.LevelInfo + 2

// inPartition adds the partition to each record.
type inPartition struct {
	slog.Handler
	number int
}

func (h inPartition) Handle(ctx context.Context, r slog.Record) error {
	r.AddAttrs(slog.Int("partition", h.number))
	return h.Handler.Handle(ctx, r)
}

// logJobs logs jobs. It builds the record itself because slog.Logger would add the call's source, which is slow where a batch
// becomes a line for each job.
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

// jobIDs are the IDs of a log record. Bytes is for handlers that need no strings.
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
