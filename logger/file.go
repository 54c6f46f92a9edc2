package logger

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/mix-basic/delayer/internal/async"
)

// file is a log file that may fail and recover. A nil file discards everything.
type file struct {
	path string
	out  io.WriteCloser
	lost int  // lines lost since it failed; 0: it works
	torn bool // the last line is incomplete
}

// openFile returns nil for an empty path.
func openFile(path string) (*file, error) {
	if path == "" {
		return nil, nil
	}
	out, err := appendTo(path)
	if err != nil {
		return nil, err
	}
	return &file{path: path, out: out}, nil
}

func appendTo(path string) (io.WriteCloser, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	info, err := os.Stat(path)
	isPipe := err == nil && info.Mode()&os.ModeNamedPipe != 0
	var f *os.File
	if isPipe {
		f, err = openPipe(path)
	} else {
		f, err = os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
	}
	switch {
	case err != nil:
		return nil, err
	case isPipe || f.SetWriteDeadline(time.Time{}) == nil: // pipes, and files with deadlines such as terminals, may block
		return &asyncFile{async.New(f.Write, 0), f}, nil
	}
	return f, nil
}

// openPipe opens a pipe for reading as well: then it neither waits for a reader nor fails without one. A
// later reader gets what was written until the pipe was full.
func openPipe(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrPermission) { // for users who may only write, and /dev/stdout on macOS
		f, err = os.OpenFile(path, os.O_WRONLY|syscall.O_NONBLOCK, 0)
	}
	return f, err
}

// asyncFile wraps a file that may block its writer.
type asyncFile struct {
	*async.Writer
	file *os.File
}

func (a *asyncFile) Close() error {
	err := a.Writer.Close()
	if err != nil {
		err = &fs.PathError{Op: "close", Path: a.file.Name(), Err: err}
	}
	return errors.Join(err, a.file.Close())
}

// replace continues with out. Whether that works shows at the next line.
func (f *file) replace(out io.WriteCloser) (old io.WriteCloser) {
	old, f.out, f.torn = f.out, out, false
	return old
}

// write appends a line that has a line break at both ends. The first one is written only after a line that a
// full disk cut short, so that the new line is whole. The result describes a change: the file failed, or
// works again.
func (f *file) write(line []byte) (change string) {
	if f == nil {
		return ""
	}
	if !f.torn {
		line = line[1:]
	}
	n, err := f.out.Write(line)
	f.torn = (f.torn && n == 0) || (n > 0 && line[n-1] != '\n')
	switch lost := f.lost; {
	case err != nil:
		f.lost++
		if lost == 0 {
			change = fmt.Sprintf("%s can't be written, its lines are lost: %v", f.path, cause(err))
		}
	case lost > 0:
		f.lost = 0
		change = fmt.Sprintf("%s is written again, lines lost: %d", f.path, lost)
	}
	return change
}

// cause returns the error without the path, which the message already has.
func cause(err error) error {
	var at *fs.PathError
	if errors.As(err, &at) {
		return at.Err
	}
	return err
}

func absolute(path string) string {
	if abs, err := filepath.Abs(path); path != "" && err == nil {
		return abs
	}
	return path
}
