package main

import (
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
	r := startRedis()
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
