// Package async protects a writer from an output that blocks, such as a full pipe or a paused terminal. Its
// Writer hands text to a goroutine and refuses text when too much is pending.
package async

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"time"
)

const (
	// MaxPending bounds the pending text in bytes. A longer piece is accepted if nothing else is pending.
	MaxPending = 1 << 20
	// FlushWait is how long Close waits for the last pieces; it is part of the daemon's time to stop.
	FlushWait = 250 * time.Millisecond
)

// ErrNotRead is why a Writer refuses text.
var ErrNotRead = errors.New("it is not read")

// Writer hands text to a goroutine that calls write for each piece and ignores the results.
//
// When too much is pending, all text is refused, even short pieces, until the goroutine has written its
// current batch and taken everything pending. So a slow reader loses long passages instead of single lines
// here and there.
type Writer struct {
	write    func([]byte) (int, error)
	patience time.Duration
	ended    chan struct{} // closed when the goroutine ends

	mu        sync.Mutex // guards the fields below; never held during write
	changed   *sync.Cond // text was added or taken, or the Writer is full or closed
	pending   [][]byte   // pieces
	size      int        // of pending, in bytes
	unwritten int        // lines accepted but not written
	written   int        // pieces written
	full      bool       // text is refused
	fullAt    int        // written when full was set
	refused   int        // lines refused since the last accepted one
	closed    bool
}

// New starts a Writer. With a patience, Write waits for room while pieces are being written; if none was
// written for that long, text is refused until the next one is.
func New(write func(piece []byte) (int, error), patience time.Duration) *Writer {
	w := &Writer{write: write, patience: patience, ended: make(chan struct{})}
	w.changed = sync.NewCond(&w.mu)
	go w.run()
	return w
}

// Write accepts the text as one piece or refuses it. After Close it discards it.
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
	w.pending = append(w.pending, bytes.Clone(text)) // the caller may reuse it
	w.size += len(text)
	w.changed.Broadcast()
	return len(text), nil
}

// awaitRoom returns when the text fits, or the Writer is full or closed.
func (w *Writer) awaitRoom(size int) {
	for !w.closed && !w.full && w.size > 0 && w.size+size > MaxPending {
		if w.patience == 0 {
			w.full, w.fullAt = true, w.written
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
	for batch := w.next(); len(batch) > 0; batch = w.next() {
		for _, piece := range batch {
			w.write(piece)
			w.wrote(piece)
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

// next waits for pieces and returns none at the end.
func (w *Writer) next() [][]byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.full = w.full && w.written == w.fullAt // nothing was written since
	for len(w.pending) == 0 && !w.closed {
		w.changed.Wait()
	}
	batch := w.pending
	w.pending, w.size = nil, 0
	w.changed.Broadcast()
	return batch
}

// Drain waits until the last pieces are written, however long that takes, so it is for an output that is known to
// be read. Close must follow.
func (w *Writer) Drain() {
	w.end()
	<-w.ended
}

// Close waits briefly until the last pieces are written. Its error has the number of lost lines. It does not
// close the output.
func (w *Writer) Close() error {
	lost := w.end()
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

// end makes the Writer discard later text, and returns how many lines it has refused.
func (w *Writer) end() (refused int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	w.changed.Broadcast()
	return w.refused
}

func countLines(text []byte) int { return bytes.Count(text, []byte{'\n'}) }
