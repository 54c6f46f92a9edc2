package main

import (
	"net"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A Redis that ends by itself aborts the run with an error that has its end and its log; one that we stop does not.
func TestRedisThatEndsByItself(t *testing.T) {
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Skip(err)
	}
	defer func(before func(error)) { abort = before }(abort)
	aborted := make(chan error, 1)
	abort = func(err error) { aborted <- err }
	startRedis().stop()
	r := startRedis("--crash-memcheck-enabled", "no") // which may end Redis in the middle of the report, as its threads run on
	r.do("PING")                                      // it listens before it is ready, and a signal of that time gets no whole report
	r.cmd.Process.Signal(syscall.SIGSEGV)
	select {
	case err := <-aborted:
		for _, want := range []string{"redis-server on " + r.addr + " ended by itself: signal: segmentation fault", "crashed by signal: 11", "BUG REPORT END"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("there is no %q in\n%v", want, err)
			}
		}
	case <-time.After(30 * time.Second):
		t.Error("nobody noticed")
	}
	r.stop()
}

// A server that answers on our address does not pass for ours, which could not listen there.
func TestAddressThatIsTaken(t *testing.T) {
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Skip(err)
	}
	defer func(before func(error)) { abort = before }(abort)
	aborted := make(chan error, 1)
	abort = func(err error) { aborted <- err }
	first := startRedis()
	defer first.stop()
	_, port, _ := net.SplitHostPort(first.addr)
	err := attempt(func() { startDaemon(first.addr, "redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "") })
	if err == nil { // it had answered before ours ended
		err = <-aborted
	}
	if !strings.Contains(err.Error(), "Address already in use") {
		t.Error(err)
	}
}
