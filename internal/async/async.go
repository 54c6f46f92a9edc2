// Package async keeps a writer from waiting for an output that nobody reads, as a
// full pipe or a paused terminal.
package async

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"time"
)

const (
	// MaxPending bounds the text that waits to be written, in bytes. A longer piece
	// is taken when nothing else waits.
	MaxPending = 1 << 20
	// FlushWait is how long Close waits for the last pieces. It is part of the time
	// that a stop of the daemon has.
	FlushWait = 250 * time.Millisecond
)

// ErrNotRead is why a Writer refuses text.
var ErrNotRead = errors.New("it is not read")

// Writer hands text to a goroutine, which writes it piece by piece. The answers of write
// are ignored.
//
// When too much waits, text is refused, short pieces as well, until the goroutine
// has written what it has in hand and takes all that waits. So a slow reader finds
// long whole passages, not a line here and there.
type Writer struct {
	write    func([]byte) (int, error)
	patience time.Duration
	ended    chan struct{} // closed when the goroutine has

	mu        sync.Mutex // guards what follows; never held during write
	changed   *sync.Cond // text was added or taken, or the Writer is full or closed
	pending   pieces
	unwritten int  // lines that were taken
	written   int  // pieces
	full      bool // nothing is taken
	refused   int  // lines, since one was taken
	closed    bool
}

// New starts a Writer. With a patience, Write waits for room as long as pieces are
// written; once none has been for that long, text is refused until the next one is.
func New(write func(piece []byte) (int, error), patience time.Duration) *Writer {
	w := &Writer{write: write, patience: patience, ended: make(chan struct{})}
	w.changed = sync.NewCond(&w.mu)
	go w.run()
	return w
}

// Write takes the text as one piece, or refuses it. After Close it discards it.
func (w *Writer) Write(text []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.awaitRoom(len(text))
	if w.closed {
		return len(text), nil
	}
	if w.full {
		w.refused += countLines(text)
		return 0, ErrNotRead
	}
	w.refused = 0
	w.unwritten += countLines(text)
	w.pending.add(text)
	w.changed.Broadcast()
	return len(text), nil
}

// awaitRoom returns when the text fits in, or the Writer is full or closed.
func (w *Writer) awaitRoom(size int) {
	for !w.closed && !w.full && len(w.pending.text) > 0 && len(w.pending.text)+size > MaxPending {
		if w.patience == 0 {
			w.full = true
			return
		}
		written := w.written
		patience := time.AfterFunc(w.patience, func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.full = w.full || w.written == written
			w.changed.Broadcast()
		})
		w.changed.Wait()
		patience.Stop()
	}
}

func (w *Writer) run() {
	defer close(w.ended)
	for batch := w.next(pieces{}); len(batch.ends) > 0; batch = w.next(batch) {
		start := 0
		for _, end := range batch.ends {
			piece := batch.text[start:end]
			w.write(piece)
			w.wrote(piece)
			start = end
		}
	}
}

func (w *Writer) wrote(piece []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.unwritten -= countLines(piece)
	w.written++
	if w.patience > 0 {
		w.full = false
	}
}

// next waits for text. It returns none when there will be no more. The buffer of the
// pieces before is used again.
func (w *Writer) next(written pieces) pieces {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.full = false
	for len(w.pending.ends) == 0 && !w.closed {
		w.changed.Wait()
	}
	batch := w.pending
	w.pending = pieces{}
	if cap(written.text) <= 2*MaxPending {
		w.pending = pieces{written.text[:0], written.ends[:0]}
	}
	w.changed.Broadcast()
	return batch
}

// Close waits a moment for the last pieces to be written. Its error says how many
// lines are lost. The output is left to the caller.
func (w *Writer) Close() error {
	w.mu.Lock()
	w.closed = true
	lost := w.refused
	w.changed.Broadcast()
	w.mu.Unlock()
	select {
	case <-w.ended:
	case <-time.After(FlushWait):
		w.mu.Lock()
		lost += w.unwritten
		w.mu.Unlock()
	}
	if lost > 0 {
		return fmt.Errorf("%w, lines lost: %d", ErrNotRead, lost)
	}
	return nil
}

// pieces of text, one behind the other.
type pieces struct {
	text []byte
	ends []int
}

func (p *pieces) add(text []byte) {
	p.text = append(p.text, text...)
	p.ends = append(p.ends, len(p.text))
}

func countLines(text []byte) int { return bytes.Count(text, []byte{'\n'}) }
