package server

import (
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/mix-basic/delayer/internal/store"
)

// result of a pass.
type result struct {
	Moved   int           // jobs that are ready now
	Dropped int           // orphans taken out of the pool
	Next    time.Duration // until the next job falls due; -1 if none is known
}

// pass moves all that is due. It returns early, without an error, when ctx is done;
// work is the context of what it asks of Redis.
//
// Jobs that can't be moved (their ready queue is broken) stay in front of the
// pool; the look-ups pass over them, so that no topic waits for another.
func (s *Server) pass(ctx, work context.Context) (result, error) {
	total := result{Next: -1}
	broken := map[string]error{}
	started := time.Now()
	skip := s.blocked.skip(started)
	full := skip == 0
	for ctx.Err() == nil {
		limit := s.batch.size()
		look, err := s.lookUp(work, limit, skip)
		if err != nil {
			return total, err
		}
		total.Next = look.Next
		if s.beforeMove != nil {
			s.beforeMove()
		}
		moved, stuck, err := s.move(work, look, broken)
		total.Moved += moved
		if err != nil {
			return total, err
		}
		dropped, err := s.drop(work, look.Orphans)
		total.Dropped += dropped
		if err != nil {
			return total, err
		}
		skip += stuck
		if lookedUp(look) < limit {
			break
		}
	}
	if full && ctx.Err() == nil {
		s.reportTopics(broken)
		s.blocked.found(skip, time.Since(started))
	}
	return total, nil
}

func lookedUp(look store.Lookup) int {
	n := len(look.Orphans)
	for _, b := range look.Batches {
		n += len(b.IDs)
	}
	return n
}

func (s *Server) lookUp(work context.Context, limit, skip int) (store.Lookup, error) {
	ctx, cancel := context.WithTimeout(work, batchWait)
	defer cancel()
	sent := time.Now()
	look, err := s.store.Due(ctx, limit, skip)
	if err == nil {
		s.batch.observe(lookedUp(look), look.Took, time.Since(sent))
	}
	return look, err
}

// move moves the looked-up batches but those of topics known as broken, and
// adds to these. stuck is how many jobs stay where they are.
func (s *Server) move(work context.Context, look store.Lookup, broken map[string]error) (moved, stuck int, err error) {
	batches := make([]store.Batch, 0, len(look.Batches))
	for _, b := range look.Batches {
		if broken[b.Topic] != nil {
			stuck += len(b.IDs)
			continue
		}
		batches = append(batches, b)
	}
	if len(batches) == 0 {
		return 0, stuck, nil
	}

	ctx, cancel := context.WithTimeout(work, batchWait)
	defer cancel()
	sent := time.Now()
	results, err := s.store.Move(ctx, batches)
	if err != nil {
		return 0, stuck, err
	}
	var took time.Duration
	for i, r := range results {
		switch {
		case r.Err == nil:
			moved += len(r.IDs)
			took += r.Took
			if len(r.IDs) > 0 {
				s.log.Info(readyLine(r.Batch))
			}
		case store.OneQueueOnly(r.Err):
			broken[r.Topic] = r.Err
			stuck += len(batches[i].IDs)
		default:
			err = r.Err
		}
	}
	s.batch.observe(moved, took, time.Since(sent))
	return moved, stuck, err
}

func (s *Server) drop(work context.Context, orphans store.IDs) (int, error) {
	if len(orphans) == 0 {
		return 0, nil
	}
	ctx, cancel := context.WithTimeout(work, batchWait)
	defer cancel()
	dropped, err := s.store.Drop(ctx, orphans)
	if len(dropped) > 0 {
		s.log.Error(idsLine("Job bucket has expired or is incomplete, job dropped, IDs: [", dropped))
	}
	return len(dropped), err
}

// reportTopics tells the log which topics broke and which are well again.
func (s *Server) reportTopics(broken map[string]error) {
	reports := maps.Clone(broken)
	for _, topic := range s.outages.open("topic ") {
		if _, ok := reports[topic]; !ok {
			reports[topic] = nil
		}
	}
	for topic, err := range reports {
		s.outages.report("topic "+topic, "Jobs of a topic can't be moved, Topic: "+topic, err)
	}
}

// readyLine is the original's line for one topic's moved batch.
func readyLine(b store.Batch) string {
	return idsLine("Job is ready, Topic: "+b.Topic+", IDs: [", b.IDs)
}

func idsLine(head string, ids store.IDs) string {
	size := len(head) + 1
	for _, id := range ids {
		size += len(id.([]byte)) + 1
	}
	var line strings.Builder
	line.Grow(size)
	line.WriteString(head)
	for i, id := range ids {
		if i > 0 {
			line.WriteByte(',')
		}
		line.Write(id.([]byte))
	}
	line.WriteByte(']')
	return line.String()
}

// isCut reports whether err is a connection that was closed on us.
func isCut(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}
