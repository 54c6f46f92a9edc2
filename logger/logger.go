// Package logger writes the access log and the error log in the original
// Delayer's format, one line a message:
//
//	[info] 2006/01/02 15:04:05 message
//
// The time is local. A message can't forge a line: line breaks and whatever else
// could pass for one are escaped, see [Logger.Info].
package logger

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mix-basic/delayer/internal/async"
)

// Options says where a Logger writes. The zero value writes nothing.
type Options struct {
	// AccessLog is the file of Info's lines, ErrorLog that of Error's. Empty
	// means that there is none; the same path twice is one file. Folders on the
	// way are made. A file may be a pipe, and is treated like the console then.
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
// of lines lost, when it ends: on the console, and in the error log when that is
// another file.
//
// Nobody waits for the console. Up to 1 MiB of lines wait for it; when it takes
// none for longer, it loses lines as a file does, and the error log is told.
type Logger struct {
	options   Options
	reopening sync.Mutex // held by Reopen and Close, so that they follow each other

	mu             sync.Mutex // guards what follows, and keeps lines whole
	access, errors *file      // nil: none; one file when the paths are the same
	console        *file      // nil: none
	format         format
	attrs          []slog.Attr // of the record in hand; used again for the next one
	closed         bool

	now func() time.Time
}

const (
	info   = "info"
	failed = "error"
)

// Open opens the files. Its error names the one that can't be opened.
func Open(o Options) (*Logger, error) {
	o.AccessLog, o.ErrorLog = absolute(o.AccessLog), absolute(o.ErrorLog) // for Reopen, after a change of directory
	l := &Logger{options: o, format: format{json: o.JSON}, now: time.Now}
	var err error
	if l.access, err = openFile(o.AccessLog); err != nil {
		return nil, fmt.Errorf("access log: %w", err)
	}
	if l.errors = l.access; o.ErrorLog != o.AccessLog {
		l.errors, err = openFile(o.ErrorLog)
	}
	if err != nil {
		l.Close()
		return nil, fmt.Errorf("error log: %w", err)
	}
	if o.Console != nil {
		l.console = &file{path: "the console", out: async.New(o.Console.Write, 0)}
	}
	return l, nil
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
func (l *Logger) Info(message string) { l.log(&l.access, entry{level: info, message: message}) }

// Error writes an [error] line to the error log and the console. It treats the
// message as [Logger.Info] does.
func (l *Logger) Error(message string) { l.log(&l.errors, entry{level: failed, message: message}) }

// Print writes text that ends with a line break to the console alone, as it is.
func (l *Logger) Print(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(text) {
		l.notify(l.console, l.console.write([]byte("\n"+line)))
	}
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
	// Without mu: an open that takes its time stops no line.
	fresh, err := Open(Options{AccessLog: l.options.AccessLog, ErrorLog: l.options.ErrorLog})
	if err != nil {
		return errors.Unwrap(err)
	}
	files := fresh.files()
	l.mu.Lock()
	for i, f := range l.files() {
		files[i].out = f.replace(files[i].out)
	}
	l.mu.Unlock()
	var errs []error
	for _, old := range files {
		errs = append(errs, old.out.Close())
	}
	return errors.Join(errs...)
}

// CloseConsole waits a moment for the console to take its last lines, and goes on
// without it. What it loses by that is said in the error log.
func (l *Logger) CloseConsole() { l.closeFile(&l.console) }

// Close closes the console and the files. Later messages are discarded. A second
// Close does nothing.
func (l *Logger) Close() error {
	l.reopening.Lock()
	defer l.reopening.Unlock()
	l.closed = true
	l.CloseConsole()
	l.mu.Lock()
	if l.access == l.errors {
		l.access = nil
	}
	l.mu.Unlock()
	return errors.Join(l.closeFile(&l.access), l.closeFile(&l.errors))
}

// closeFile closes a file, of which f is the field. It does so without mu: nobody
// waits for the last lines of one that is not read.
func (l *Logger) closeFile(f **file) error {
	l.mu.Lock()
	old := *f
	*f = nil
	l.mu.Unlock()
	if old == nil {
		return nil
	}
	err := old.out.Close()
	if err != nil {
		l.Error(fmt.Sprintf("%s: %v", old.path, cause(err)))
	}
	return err
}

// files are the open files, each once. They change with reopening held only.
func (l *Logger) files() []*file {
	files := slices.Compact([]*file{l.access, l.errors})
	return slices.DeleteFunc(files, func(f *file) bool { return f == nil })
}

// log writes the entry into a file, of which to is the field, and on the console.
func (l *Logger) log(to **file, e entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.write(*to, l.console, e)
}

func (l *Logger) write(to, console *file, e entry) {
	if to == nil && console == nil {
		return
	}
	line := l.format.line(l.now(), e)
	change, consoleChange := to.write(line), console.write(line)
	l.notify(to, change)
	l.notify(console, consoleChange)
}

// notify logs that f began to fail, or works again. Where that fails in turn, it logs
// that, too.
func (l *Logger) notify(f *file, change string) {
	if change == "" {
		return
	}
	e, to, console := entry{level: info, message: change}, l.errors, l.console
	if f.lost > 0 {
		e.level = failed
	}
	if to == f {
		to = nil
	}
	if console == f && f.lost > 0 { // it would only lose one more
		console = nil
	}
	l.write(to, console, e)
}
