package cli

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/mix-basic/delayer/internal/async"
)

// progress shows how far a long command is: a bar on a terminal, otherwise an occasional line.
type progress struct {
	to      *os.File
	redraws bool
	every   time.Duration
	shown   time.Time
	width   int // width of the bar on the screen
}

func newProgress(to *os.File) *progress {
	if isScreen(to) {
		return &progress{to: to, redraws: true, every: redrawn}
	}
	return &progress{to: to, every: lineEvery, shown: time.Now()}
}

const (
	barWidth  = 30
	redrawn   = 100 * time.Millisecond
	lineEvery = 10 * time.Second
)

// show shows the text behind a bar for the done part of all. It shows it seldom, and no bar if all is 0.
func (p *progress) show(done, all int, text string) {
	if time.Since(p.shown) < p.every {
		return
	}
	p.shown = time.Now()
	if !p.redraws {
		async.Briefly(func() { fmt.Fprintln(p.to, text) })
		return
	}
	if all > 0 {
		n := barWidth * min(done, all) / all
		text = "[" + strings.Repeat("#", n) + strings.Repeat(".", barWidth-n) + "] " + text
	}
	async.Briefly(func() { fmt.Fprintf(p.to, "\r%-*s", p.width, text) })
	p.width = max(p.width, len(text))
}

// end clears the bar.
func (p *progress) end() {
	if p.width > 0 {
		async.Briefly(func() { fmt.Fprintf(p.to, "\r%*s\r", p.width, "") })
	}
}
