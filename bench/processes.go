package main

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/shirou/gopsutil/v4/process"
)

// owned is what must not outlive this program: processes and a temporary directory.
var owned struct {
	sync.Mutex
	folder    string
	processes map[*program]bool
}

// own creates the temporary directory, and makes an interrupted run clean up with disown.
func own() error {
	folder, err := os.MkdirTemp("", "delayer-bench-")
	if err != nil {
		return err
	}
	owned.folder, owned.processes = folder, map[*program]bool{}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // as under nohup
		signal.Notify(signals, syscall.SIGHUP)
	}
	go func() {
		<-signals
		disown()
		os.Exit(130)
	}()
	return nil
}

// disown stops everything that is running and removes the directory. It keeps the lock, so that nothing new
// starts, and returns only once: its caller exits.
func disown() {
	owned.Lock()
	var wg sync.WaitGroup
	for p := range owned.processes {
		wg.Go(p.end)
	}
	wg.Wait()
	os.RemoveAll(owned.folder)
}

// newFolder returns an empty directory that is removed at the end.
func newFolder() (string, error) { return os.MkdirTemp(owned.folder, "") }

// program is a process started by this one that ends with it.
type program struct {
	cmd  *exec.Cmd
	exit chan struct{}
	err  error // result; read it after exit
}

func start(cmd *exec.Cmd) (*program, error) {
	owned.Lock()
	defer owned.Unlock()
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &program{cmd: cmd, exit: make(chan struct{})}
	owned.processes[p] = true
	go func() {
		p.err = cmd.Wait()
		close(p.exit)
	}()
	return p, nil
}

// wait waits for the process to end.
func (p *program) wait() error {
	<-p.exit
	owned.Lock()
	defer owned.Unlock()
	delete(owned.processes, p)
	return p.err
}

// end asks the process to end, so that it can stop its own children.
func (p *program) end() {
	p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.exit:
	case <-time.After(10 * time.Second):
		p.cmd.Process.Kill()
		<-p.exit
	}
}

func (p *program) stop() {
	p.end()
	p.wait()
}

// daemon is a server process of this run.
type daemon struct {
	*program
	addr string
}

// freeAddr returns an unused address. Its port is below those of outgoing connections, one of which could take it before
// the server does.
func freeAddr() (string, error) {
	const first, last = 10000, 29999
	for range 100 {
		addr := fmt.Sprint("127.0.0.1:", first+rand.IntN(last-first+1))
		if l, err := net.Listen("tcp", addr); err == nil {
			return addr, l.Close()
		}
	}
	return "", fmt.Errorf("no free port from %d to %d", first, last)
}

// startDaemon starts the server and waits until it accepts connections.
func startDaemon(addr, name string, args ...string) (*daemon, error) {
	path, err := exec.LookPath(name)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(path, args...)
	cmd.Stderr = os.Stderr
	return startListening(addr, cmd)
}

// startSilent is startDaemon for servers that log each request to standard error.
func startSilent(addr, path string, args ...string) (*daemon, error) {
	return startListening(addr, exec.Command(path, args...))
}

func startListening(addr string, cmd *exec.Cmd) (*daemon, error) {
	p, err := start(cmd)
	if err != nil {
		return nil, err
	}
	name := filepath.Base(cmd.Path)
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); {
		select {
		case <-p.exit:
			return nil, fmt.Errorf("%s ended at once: %w", name, p.wait())
		case <-time.After(10 * time.Millisecond):
		}
		if c, err := net.Dial("tcp", addr); err == nil {
			c.Close()
			return &daemon{p, addr}, nil
		}
	}
	p.stop()
	return nil, fmt.Errorf("%s does not answer", name)
}

// residentBytes returns the memory of the process.
func (p *program) residentBytes() (float64, error) {
	of, err := process.NewProcess(int32(p.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	m, err := of.MemoryInfo()
	if err != nil {
		return 0, err
	}
	return float64(m.RSS), nil
}

// cpu returns the CPU time of the process.
func (p *program) cpu() (time.Duration, error) {
	of, err := process.NewProcess(int32(p.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	t, err := of.Times()
	if err != nil {
		return 0, err
	}
	return time.Duration((t.User + t.System) * float64(time.Second)), nil
}

// ownCPU returns the CPU time of this process.
func ownCPU() time.Duration {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
