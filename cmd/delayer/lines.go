package main

import (
	"bytes"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// maxQueued is how many pieces of output wait to be written.
	maxQueued = 256
	// maxLine is how much of a line is gathered. A longer one is passed on in pieces, between which
	// other programs' lines may come.
	maxLine = 64 << 10
	// readPatience is how long programs are held up by an output that nobody reads. Then
	// what they write is lost, until it is read again.
	readPatience = 10 * time.Second
)

// lineWriter writes the lines of many programs to one output.
type lineWriter struct {
	out    io.Writer
	tell   func(message string) // of lines that are lost; nil: nobody
	queue  chan []byte
	ended  chan struct{} // closed when all is written
	stuck  atomic.Bool   // nobody reads: nobody waits for that
	lost   atomic.Int64  // lines
	closed sync.RWMutex  // locked for good when there is nothing more to be written
}

func newLineWriter(out io.Writer, tell func(message string)) *lineWriter {
	if tell == nil {
		tell = func(string) {}
	}
	w := &lineWriter{out: out, tell: tell, queue: make(chan []byte, maxQueued), ended: make(chan struct{})}
	go w.run()
	return w
}

func (w *lineWriter) run() {
	defer close(w.ended)
	for text := range w.queue {
		if _, err := w.out.Write(text); err != nil {
			w.lose(text, err.Error())
			continue
		}
		w.stuck.Store(false)
		if lost := w.lost.Swap(0); lost > 0 {
			w.tell(fmt.Sprintf("works again, lines lost: %d", lost))
		}
	}
}

// Write takes whole lines, and keeps nothing of the slice. It never fails.
func (w *lineWriter) Write(text []byte) (int, error) {
	if !w.closed.TryRLock() {
		return len(text), nil
	}
	defer w.closed.RUnlock()
	piece := bytes.Clone(text)
	select {
	case w.queue <- piece:
		return len(text), nil
	default:
	}
	if !w.stuck.Load() {
		patience := time.NewTimer(readPatience)
		defer patience.Stop()
		select {
		case w.queue <- piece:
			return len(text), nil
		case <-patience.C:
			w.stuck.Store(true)
		}
	}
	w.lose(text, "it is not read")
	return len(text), nil
}

// lose counts lines that are lost, and tells of the first.
func (w *lineWriter) lose(text []byte, why string) {
	n := max(int64(bytes.Count(text, []byte{'\n'})), 1)
	if w.lost.Add(n) == n {
		w.tell("lines are lost: " + why)
	}
}

// close waits a moment for the last lines to be written.
func (w *lineWriter) close() {
	if !w.closed.TryLock() { // somebody waits to write: nobody reads
		return
	}
	close(w.queue)
	briefly(func() { <-w.ended })
}

// lines is an output of one program.
type lines struct {
	to   *lineWriter
	keep int // how much of the end is kept, in bytes

	mu    sync.Mutex // a program's children may go on to write when it has ended
	begun []byte     // a line that has no end yet
	kept  []byte
	over  bool
}

// Write passes whole lines on. It never fails.
func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return len(b), nil
	}
	l.kept = append(l.kept, b...)
	if len(l.kept) > 2*l.keep {
		l.kept = append(l.kept[:0], l.kept[len(l.kept)-l.keep:]...)
	}
	l.begun = append(l.begun, b...)
	whole := bytes.LastIndexByte(l.begun, '\n') + 1
	if len(l.begun)-whole > maxLine {
		whole = len(l.begun)
	}
	if whole > 0 {
		l.to.Write(l.begun[:whole])
		l.begun = append(l.begun[:0], l.begun[whole:]...)
	}
	return len(b), nil
}

// end passes on what is left, and returns the end of all. What comes later is lost.
func (l *lines) end() (kept string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over = true
	if len(l.begun) > 0 {
		l.to.Write(append(l.begun, '\n'))
	}
	return string(l.kept[max(0, len(l.kept)-l.keep):])
}
