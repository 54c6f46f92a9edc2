package logger

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mix-basic/delayer/internal/async"
)

// paused is a console that accepts nothing until it is resumed.
type paused struct {
	resume chan struct{}
	writes
}

func (p *paused) Write(line []byte) (int, error) {
	<-p.resume
	return p.writes.Write(line)
}

// However long the console is blocked, every line reaches its file and nobody waits. Lines lost on the
// console are counted, on it and in the error log.
func TestPausedConsole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		console := &paused{resume: make(chan struct{})}
		l := open(t, Options{AccessLog: filepath.Join(dir, "a"), ErrorLog: filepath.Join(dir, "e"), Console: console})
		var all []string
		log := func(message string) {
			l.Info(message)
			all = append(all, line("info", message))
		}
		for i := range 3 * async.MaxPending / 1000 {
			log(fmt.Sprint(i, strings.Repeat("x", 1000)))
		}
		close(console.resume)
		synctest.Wait()
		taken := len(console.writes)
		log("goes on")
		l.Close()

		lost := len(all) - 1 - taken
		begins := line("error", "the console can't be written, its lines are lost: it is not read")
		ends := line("info", fmt.Sprintf("the console is written again, lines lost: %d", lost))
		check(t, "access log", read(t, filepath.Join(dir, "a")), strings.Join(all, ""))
		check(t, "error log", read(t, filepath.Join(dir, "e")), begins+ends)
		want := append(slices.Clone(all[:taken]), line("info", "goes on"), ends)
		if !slices.Equal(console.writes, want) {
			t.Errorf("console: %d lines, want the first %d and that the others are lost", len(console.writes), taken)
		}
		if taken < async.MaxPending/1100 || lost < async.MaxPending/1000 {
			t.Errorf("%d lines taken, %d lost", taken, lost)
		}
	})
}

// A slow console is not told about every single lost line.
func TestSlowConsoleMissesWholePassages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		console := &paused{resume: make(chan struct{})}
		l := open(t, Options{Console: console})
		for range 4 * async.MaxPending / 1000 {
			l.Info(strings.Repeat("x", 1000))
			synctest.Wait()
			select {
			case console.resume <- struct{}{}: // accepts every second line
				l.Info(strings.Repeat("x", 1000))
			default:
			}
		}
		close(console.resume)
		l.Close()
		again := 0
		for _, text := range console.writes {
			again += strings.Count(text, "is written again")
		}
		if again == 0 || again > 6 {
			t.Errorf("it was said %d times that lines were lost", again)
		}
	})
}

func TestALineOfAnySizeIsTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var console writes
		l := open(t, Options{Console: &console})
		var want writes
		for _, message := range []string{strings.Repeat("x", 3*async.MaxPending), "y", "z"} {
			l.Info(message)
			synctest.Wait()
			want = append(want, line("info", message))
		}
		l.Close()
		if !slices.Equal(console, want) {
			t.Errorf("%d lines on the console", len(console))
		}
	})
}

// Close waits until the console accepts the rest, or briefly if it is blocked, and logs the loss.
func TestCloseOfPausedConsole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "e")
		console := &paused{resume: make(chan struct{})}
		l := open(t, Options{ErrorLog: path, Console: console})
		l.Print("a\nb\n")
		synctest.Wait() // they are being written
		l.Info("c")
		l.Info("d")
		l.Print(strings.Repeat("x", async.MaxPending) + "\n")
		l.Info(strings.Repeat("y", async.MaxPending))
		l.Info("e") // would fit
		console.resume <- struct{}{}
		began := time.Now()
		l.Close()
		if took := time.Since(began); took != async.FlushWait {
			t.Errorf("closed after %v", took)
		}
		check(t, "error log", read(t, path),
			line("error", "the console can't be written, its lines are lost: it is not read")+
				line("error", "the console: it is not read, lines lost: 6"))
		console.writes.expect(t, "a\n")
		close(console.resume)
	})
}

func TestPrintIsForTheConsoleAlone(t *testing.T) {
	dir := t.TempDir()
	var console writes
	l := open(t, Options{AccessLog: filepath.Join(dir, "a"), ErrorLog: filepath.Join(dir, "e"), Console: &console, JSON: true})
	l.Print("a\tb\n")
	l.Close()
	check(t, "files", read(t, filepath.Join(dir, "a"))+read(t, filepath.Join(dir, "e")), "")
	console.expect(t, "a\tb\n")
}

// DrainConsole waits longer, until the console has every line.
func TestDrainConsole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		console := &paused{resume: make(chan struct{})}
		l := open(t, Options{Console: console})
		l.Print("a\nb\n")
		time.AfterFunc(2*async.FlushWait, func() { close(console.resume) })
		l.DrainConsole()
		console.writes.expect(t, "a\n", "b\n")
		l.Info("after the end")
		l.Close()
		console.writes.expect(t, "a\n", "b\n")
	})
}
