package runner

import (
	"bytes"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mix-basic/delayer/internal/async"
)

const (
	// maxLine is the maximum number of buffered bytes of a line. A longer line is written in pieces, which may alternate
	// with other programs' lines.
	maxLine = 64 << 10
	// readPatience is how long programs wait for an output that nobody reads. After that their output is lost until it is
	// read again.
	readPatience = 10 * time.Second
)

// reportingOutput reports when it begins to lose lines and, once it works again, how many it lost.
type reportingOutput struct {
	*async.Writer
	out    io.Writer
	report func(message string)
	lost   atomic.Int64 // lines
}

func newReportingOutput(out io.Writer, report func(message string)) *reportingOutput {
	o := &reportingOutput{out: out, report: report}
	o.Writer = async.New(o.writeOut, readPatience)
	return o
}

// Write never fails.
func (o *reportingOutput) Write(lines []byte) (int, error) {
	if _, err := o.Writer.Write(lines); err != nil {
		o.lose(lines, err)
	}
	return len(lines), nil
}

func (o *reportingOutput) writeOut(lines []byte) (int, error) {
	n, err := o.out.Write(lines)
	if err != nil {
		o.lose(lines, err)
	} else if lost := o.lost.Swap(0); lost > 0 {
		o.report(fmt.Sprintf("works again, lines lost: %d", lost))
	}
	return n, err
}

func (o *reportingOutput) lose(lines []byte, why error) {
	n := max(int64(bytes.Count(lines, []byte{'\n'})), 1)
	if o.lost.Add(n) == n {
		o.report("lines are lost: " + why.Error())
	}
}

// lines is the output of one program.
type lines struct {
	to   io.Writer
	keep int // number of bytes kept from the end

	mu    sync.Mutex // children may still write after the program has ended
	begun []byte     // an incomplete line
	kept  []byte
	over  bool
}

// Write writes complete lines to the output. It never fails.
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

// end writes the rest, and returns the last bytes of the whole output. Later writes are lost.
func (l *lines) end() (kept string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over = true
	if len(l.begun) > 0 {
		l.to.Write(append(l.begun, '\n'))
	}
	return string(l.kept[max(0, len(l.kept)-l.keep):])
}
