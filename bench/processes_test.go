package main

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	ossignal "os/signal"
	"syscall"
	"testing"
)

// TestMain lets this program be a run that is interrupted.
func TestMain(m *testing.M) {
	if err := own(); err != nil {
		panic(err)
	}
	if os.Getenv("BENCH_TEST_PLAY") == "" {
		code := m.Run()
		disown()
		os.Exit(code)
	}
	p, err := start(exec.Command("sleep", "60"))
	if err != nil {
		panic(err)
	}
	fmt.Println(p.cmd.Process.Pid, owned.folder)
	p.wait()
	select {} // must not end by itself
}

func TestInterruptedRunLeavesNothing(t *testing.T) {
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		t.Run(signal.String(), func(t *testing.T) {
			if ossignal.Ignored(signal) {
				t.Skip("ignored here, as under nohup")
			}
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), "BENCH_TEST_PLAY=1")
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			line, err := bufio.NewReader(out).ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			var pid int
			var folder string
			fmt.Sscan(line, &pid, &folder)
			if _, err := os.Stat(folder); err != nil {
				t.Fatal(err)
			}
			cmd.Process.Signal(signal)
			if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 130 {
				t.Errorf("ended with %v", err)
			}
			if err := syscall.Kill(pid, 0); err != syscall.ESRCH {
				t.Errorf("what it had started: %v", err)
			}
			if _, err := os.Stat(folder); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("its folder: %v", err)
			}
		})
	}
}
