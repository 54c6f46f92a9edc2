// Package logger writes the access log and the error log in the original
// Delayer's format, one line a message:
//
//	[info] 2006/01/02 15:04:05 message
//
// The time is local. A message can't forge a line: line breaks and whatever else
// could pass for one are escaped, see [Logger.Info].
package logger

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// Options says where a Logger writes. The zero value writes nothing.
type Options struct {
	// AccessLog is the file of Info's lines, ErrorLog that of Error's. Empty
	// means that there is none; the same path twice is one file. Folders on the
	// way are made.
	AccessLog, ErrorLog string
	// Console is given every line too, in one Write each. nil means nobody is.
	// What it answers is ignored.
	Console io.Writer
	// JSON makes a line an object:
	// {"time":"2006-01-02T15:04:05.000+02:00","level":"info","message":"…"}
	JSON bool
}

// Logger writes messages to files and the console. It is safe for concurrent
// use; the lines of concurrent calls stand in the order of their times. The zero
// value discards everything.
//
// A file that can't be written, because the disk is full say, loses its lines
// and stops nobody. It is said once when that begins, and once, with the number
// of lines lost, when it ends: on the console, or on stderr when there is none,
// and in the error log when that is another file.
type Logger struct {
	reopening sync.Mutex // held by Reopen and Close, so that they follow each other

	mu             sync.Mutex // guards what follows, and keeps lines whole
	access, errors *file      // nil: none; one file when the paths are the same
	console        io.Writer  // nil: none
	format         format
	closed         bool

	now    func() time.Time // nil: time.Now
	stderr io.Writer        // for what can be said nowhere else; nil: os.Stderr
}

const (
	info   = "info"
	failed = "error"
)

// Open opens the files. Its error names the one that can't be opened.
func Open(o Options) (*Logger, error) {
	l := &Logger{console: o.Console, format: format{json: o.JSON}}
	var err error
	if l.access, err = openFile(o.AccessLog); err != nil {
		return nil, fmt.Errorf("access log: %w", err)
	}
	if l.errors, err = l.openErrorLog(o.ErrorLog); err != nil {
		l.access.close()
		return nil, fmt.Errorf("error log: %w", err)
	}
	return l, nil
}

func (l *Logger) openErrorLog(path string) (*file, error) {
	if l.access != nil && l.access.path == absolute(path) {
		return l.access, nil
	}
	return openFile(path)
}

// Info writes an [info] line to the access log and the console.
//
// In the message a line break becomes \n, a carriage return \r, a tab \t, any
// other ASCII control character or byte that is no UTF-8 \xHH, and further
// control characters and line separators \uHHHH. A backslash stays as it is
// (App\Jobs\Close) unless it would pass for the beginning of one of these: there
// it is doubled (App\\new). So each message has a line of its own, from which it
// can be told. In JSON, encoding/json escapes; a byte that is no UTF-8 becomes
// U+FFFD there.
func (l *Logger) Info(message string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.write(l.access, info, message)
}

// Error writes an [error] line to the error log and the console. It treats the
// message as [Logger.Info] does.
func (l *Logger) Error(message string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.write(l.errors, failed, message)
}

// Reopen opens the files anew by their paths, after logrotate renamed them, and
// then closes the old ones. No line is lost between them. When one can't be
// opened, all old ones stay in use and the error says why.
func (l *Logger) Reopen() error {
	l.reopening.Lock()
	defer l.reopening.Unlock()
	if l.closed {
		return fmt.Errorf("logger: %w", os.ErrClosed)
	}
	files := l.files()
	fresh, err := openAll(files) // without mu: an open that takes its time stops no line
	if err != nil {
		return err
	}
	l.mu.Lock()
	old := make([]io.Closer, len(files))
	for i, f := range files {
		old[i] = f.replace(fresh[i])
	}
	l.mu.Unlock()
	return closeAll(old)
}

// Close closes the files. Later messages go to the console only. A second Close
// does nothing.
func (l *Logger) Close() error {
	l.reopening.Lock()
	defer l.reopening.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	files := l.files()
	l.access, l.errors, l.closed = nil, nil, true
	old := make([]io.Closer, len(files))
	for i, f := range files {
		old[i] = f.out
	}
	return closeAll(old)
}

// files are the open files, each once. They change with reopening held only.
func (l *Logger) files() []*file {
	var files []*file
	if l.access != nil {
		files = append(files, l.access)
	}
	if l.errors != nil && l.errors != l.access {
		files = append(files, l.errors)
	}
	return files
}

// write puts one line into f, which may be nil, and on the console.
func (l *Logger) write(f *file, level, message string) {
	if f == nil && l.console == nil {
		return
	}
	line := l.format.line(l.time(), level, message)
	changed := f.write(line)
	if l.console != nil {
		l.console.Write(line[1:])
	}
	if changed != "" {
		l.tell(f, changed)
	}
}

// tell says that f began to fail, or works again. It may find the error log
// failing, and tells that.
func (l *Logger) tell(f *file, change string) {
	level := info
	if f.failing {
		level = failed
	}
	line := l.format.line(l.time(), level, change)
	cmp.Or(l.console, l.stderr, io.Writer(os.Stderr)).Write(line[1:])
	if l.errors == f {
		return
	}
	if change := l.errors.write(line); change != "" {
		l.tell(l.errors, change)
	}
}

func (l *Logger) time() time.Time {
	if l.now != nil {
		return l.now()
	}
	return time.Now()
}

func closeAll(files []io.Closer) error {
	var errs []error
	for _, f := range files {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}
