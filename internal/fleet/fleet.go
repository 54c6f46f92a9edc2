// Package fleet makes the partitions of a prefix look like one: it routes jobs by ID, fans calls out and merges their results, and refuses programs
// with another number of partitions.
package fleet

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/mix-basic/delayer/internal/store"
)

// Fleet is all partitions, by number.
type Fleet struct {
	Stores []*store.Store
	Prefix string

	keeper *store.Store // partition 0 of several, without an admission of its own
	single *store.Store // the only partition of one, likewise
}

// Of returns the partition to which the job with that ID belongs.
func (f *Fleet) Of(id string) *store.Store {
	if len(f.Stores) == 1 {
		return f.Stores[0]
	}
	return f.Stores[store.PartitionOf(id, len(f.Stores))]
}

// Locate finds out on which nodes the partitions are, unless that is known. It fails if no node of a cluster answers.
func (f *Fleet) Locate(ctx context.Context) error {
	_, err := f.Stores[0].Addr(ctx)
	return err
}

// Each makes a call to each partition: see the function Each. Errors have the partition's name.
func (f *Fleet) Each(call func(i int, s *store.Store) error) []error {
	return Each(f.Stores, func(i int) error { return f.Named(i, call(i, f.Stores[i])) })
}

// Named adds the name of a partition, if there are several, to an error of it.
func (f *Fleet) Named(i int, err error) error {
	if err != nil && len(f.Stores) > 1 {
		return fmt.Errorf("partition %d: %w", i, err)
	}
	return err
}

// NewIDElsewhere returns a new ID of a job that belongs to none of these nodes of a cluster; "" if there are no others.
func (f *Fleet) NewIDElsewhere(ctx context.Context, nodes map[string]bool) string {
	others := slices.DeleteFunc(slices.Clone(f.Stores), func(s *store.Store) bool {
		addr, _ := s.Addr(ctx)
		return nodes[addr]
	})
	for len(others) > 0 {
		if id := store.NewID(); slices.Contains(others, f.Of(id)) {
			return id
		}
	}
	return ""
}

// Pattern returns the Keys for messages that concern all partitions: with several, * stands for the number.
func (f *Fleet) Pattern() store.Keys {
	if len(f.Stores) > 1 {
		return store.KeysOf(f.Prefix + "{*}:")
	}
	return f.Stores[0].Keys()
}

// Logger returns the log for records of a partition: with several, they have its number.
func (f *Fleet) Logger(i int, log *slog.Logger) *slog.Logger {
	if len(f.Stores) > 1 {
		return slog.New(numbered{log.Handler(), i})
	}
	return log
}

type numbered struct {
	slog.Handler
	partition int
}

// Handle adds the partition to the record.
func (h numbered) Handle(ctx context.Context, r slog.Record) error {
	r.AddAttrs(slog.Int("partition", h.partition))
	return h.Handler.Handle(ctx, r)
}

// Explain says what to configure if the single Redis that was configured turns out to be a node of a cluster. isAmiss reports whether it is.
func (f *Fleet) Explain(err error) (explained error, isAmiss bool) {
	switch {
	case f.Stores[0].IsElsewhere(err):
		return fmt.Errorf("it is a node of a Redis Cluster, and other nodes have keys of ours; want redis-cluster://… with partitions, or [redis] cluster: %w", err), true
	case store.InTwoSlots(err):
		return fmt.Errorf("it is a node of a cluster, where all keys have to be in one slot; want partitions and [redis] cluster, or a prefix with a hash tag, such as {%s}:, here and in all clients: %w", strings.TrimRight(f.Prefix, ":"), err), true
	}
	return err, false
}

// Server is a Redis server that has partitions.
type Server struct {
	Addr  string       // of a node of a cluster; else empty
	Store *store.Store // a partition on it
}

// Servers returns the Redis servers: one or, in a cluster, each node with partitions. It fails if no node of the cluster responds.
func (f *Fleet) Servers(ctx context.Context) (all []Server, err error) {
	known := map[string]bool{}
	for _, s := range f.Stores {
		addr, err := s.Addr(ctx)
		if err != nil {
			return nil, err
		}
		if !known[addr] {
			known[addr], all = true, append(all, Server{addr, s})
		}
	}
	return all, nil
}

// Mover returns the server that should move the partition's jobs, chosen among those alive by rendezvous hashing: if one leaves, only its
// partitions change, and the others share them. Without servers it is zero.
func Mover(partition int, alive []store.ServerState) (mover store.ServerState) {
	var most uint64
	for i, s := range alive {
		hash := sha256.Sum256(fmt.Append(nil, partition, " ", s.ID))
		wants := binary.BigEndian.Uint64(hash[:])
		if i == 0 || wants > most {
			mover, most = s, wants
		}
	}
	return mover
}
