// Package logger writes the access log and the error log in the original's format, one line per message:
//
//	[info] 2006/01/02 15:04:05 message
//
// The time is local. A message cannot forge a line: line breaks and anything that could look like one are
// escaped, see [Logger.Info].
//
// No caller waits for a slow console or pipe, or fails because a file cannot be written. Lost lines are counted
// and reported.
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

// Options of a Logger. The zero value writes nothing.
type Options struct {
	// AccessLog is the file for Info's lines, ErrorLog that for Error's. Empty means none; the same path
	// twice is one file. Missing directories are created. A pipe is treated like the console.
	AccessLog, ErrorLog string
	// Console receives every line too, in one Write each; its errors are ignored. It may be nil.
	Console io.Writer
	// JSON writes each line as an object:
	//	{"time":"2006-01-02T15:04:05.000+02:00","level":"info","message":"…"}
	JSON bool
}

// Logger writes messages to files and the console. It is safe for concurrent use; lines are ordered by time.
// The zero value discards everything.
//
// A file that cannot be written, for example on a full disk, loses lines but stops nobody. The start and the
// end of the failure, with the number of lost lines, are reported on the console and in the error log, if
// that is another file.
//
// Nobody waits for the console, which may be a paused terminal. Up to 1 MiB of lines are buffered; beyond that it
// loses lines like a file, and the error log says so.
type Logger struct {
	options   Options
	reopening sync.Mutex // serializes Reopen and Close

	mu             sync.Mutex // guards the fields below and keeps lines whole
	access, errors *file      // nil for none; the same file if the paths are equal
	console        *file      // nil for none
	format         format
	attrs          []slog.Attr // of the current record; reused
	closed         bool

	now func() time.Time
}

const (
	info   = "info"
	failed = "error"
)

// Open opens the files. An error names the file.
func Open(o Options) (*Logger, error) {
	o.AccessLog, o.ErrorLog = absolute(o.AccessLog), absolute(o.ErrorLog) // for Reopen after a change of directory
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
// In the message a line break becomes \n, a carriage return \r, a tab \t, other ASCII control characters and
// invalid UTF-8 \xHH, other control characters and line separators \uHHHH. A backslash is unchanged
// (App\Jobs\Close) unless it would look like one of these escapes; then it is doubled (App\\new). So each
// message is one line from which it can be restored. In JSON, encoding/json escapes, and invalid UTF-8
// becomes U+FFFD.
func (l *Logger) Info(message string) { l.log(&l.access, entry{level: info, message: message}) }

// Error writes an [error] line to the error log and the console, escaped like [Logger.Info].
func (l *Logger) Error(message string) { l.log(&l.errors, entry{level: failed, message: message}) }

// Print writes text that ends with a line break to the console only, unchanged.
func (l *Logger) Print(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(text) {
		l.notify(l.console, l.console.write([]byte("\n"+line)))
	}
}

// Reopen opens the files again, after logrotate renamed them, and closes the old ones. No line is lost. If a
// file cannot be opened the old files stay in use and the error says why.
func (l *Logger) Reopen() error {
	l.reopening.Lock()
	defer l.reopening.Unlock()
	if l.closed {
		return fmt.Errorf("logger: %w", os.ErrClosed)
	}
	// Without mu: a slow open delays no line.
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

// CloseConsole waits briefly for the console's last lines and continues without it. Lost lines are reported
// in the error log.
func (l *Logger) CloseConsole() { l.closeFile(&l.console) }

// DrainConsole is CloseConsole for a console that is known to be read: it waits for the last line, however long
// that takes.
func (l *Logger) DrainConsole() {
	l.mu.Lock()
	console := l.console
	l.mu.Unlock()
	if console == nil {
		return
	}
	console.out.(*async.Writer).Drain()
	l.CloseConsole()
}

// Close closes the console and the files. Later messages are discarded. A second Close does nothing.
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

// closeFile closes the file in field f. It does so without mu, so nobody waits for the last lines of an
// unread pipe.
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

// files returns the open files, each once. They change only while reopening is held.
func (l *Logger) files() []*file {
	files := slices.Compact([]*file{l.access, l.errors})
	return slices.DeleteFunc(files, func(f *file) bool { return f == nil })
}

// log writes the entry to the file in field to and to the console.
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

// notify reports that f failed or works again. If that fails too, it reports that.
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
	if console == f && f.lost > 0 { // it would only lose another line
		console = nil
	}
	l.write(to, console, e)
}
