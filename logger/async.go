package logger

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// maxPending bounds the lines that wait to be written, in bytes. A longer line
	// is taken when nothing else waits.
	maxPending = 1 << 20
	// flushWait is how long Close waits for the last lines to be taken. It is part
	// of the time that a stop of the daemon has.
	flushWait = 250 * time.Millisecond
)

var errNotRead = errors.New("it is not read")

// async writes to what may keep a writer waiting for ever, as a pipe that nobody
// reads or a paused terminal does. Its Write never waits: one goroutine writes, a
// line at a time. What out answers is ignored.
//
// When too much waits, lines are refused, short ones as well, until the goroutine
// has written what it has in hand and takes all that waits. So a slow reader finds
// long whole passages, not a line here and there.
type async struct {
	out       io.Writer
	unwritten atomic.Int64  // lines that were taken
	ended     chan struct{} // closed when the goroutine has

	mu      sync.Mutex // guards what follows; never held while out is written
	filled  *sync.Cond // pending or closed has changed
	pending []byte
	full    bool // since a line was refused, until the goroutine takes what waits
	refused int  // lines, since one was taken
	closed  bool
}

func newAsync(out io.Writer) *async {
	a := &async{out: out, ended: make(chan struct{})}
	a.filled = sync.NewCond(&a.mu)
	go a.run()
	return a
}

// Write takes whole lines, all or none of them. After Close it discards them.
func (a *async) Write(lines []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := bytes.Count(lines, []byte{'\n'})
	if a.closed {
		return len(lines), nil
	}
	if a.full || len(a.pending) > 0 && len(a.pending)+len(lines) > maxPending {
		a.full = true
		a.refused += n
		return 0, errNotRead
	}
	a.refused = 0
	a.unwritten.Add(int64(n))
	a.pending = append(a.pending, lines...)
	a.filled.Signal()
	return len(lines), nil
}

func (a *async) run() {
	defer close(a.ended)
	var batch []byte
	for {
		batch = a.next(batch)
		if len(batch) == 0 {
			return
		}
		for line := range bytes.Lines(batch) {
			a.out.Write(line)
			a.unwritten.Add(-1)
		}
	}
}

// next waits for lines. It returns none when there will be no more. The buffer of
// those before is used again.
func (a *async) next(written []byte) []byte {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.full = false
	for len(a.pending) == 0 && !a.closed {
		a.filled.Wait()
	}
	batch := a.pending
	a.pending = nil
	if cap(written) <= 2*maxPending {
		a.pending = written[:0]
	}
	return batch
}

// Close waits a moment for the last lines to be written. Its error says how many
// lines are lost. An out that can be closed is left to the caller.
func (a *async) Close() error {
	a.mu.Lock()
	a.closed = true
	lost := a.refused
	a.filled.Signal()
	a.mu.Unlock()
	select {
	case <-a.ended:
	case <-time.After(flushWait):
		lost += int(a.unwritten.Load())
	}
	if lost > 0 {
		return fmt.Errorf("%w, lines lost: %d", errNotRead, lost)
	}
	return nil
}
