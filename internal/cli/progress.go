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
	shown   time.Time
	width   int // width of the bar on the screen
}

func newProgress(to *os.File) *progress { return &progress{to: to, redraws: isScreen(to)} }

const (
	barWidth  = 30
	redrawn   = 100 * time.Millisecond
	lineEvery = 10 * time.Second
)

// show shows the text behind a bar for the done part of all. It shows it seldom, and no bar if all is 0.
func (p *progress) show(done, all int, text string) {
	every := lineEvery
	if p.redraws {
		every = redrawn
	}
	if p.shown.IsZero() && !p.redraws {
		p.shown = time.Now()
	}
	if time.Since(p.shown) < every {
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
