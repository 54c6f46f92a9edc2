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
	"sync/atomic"
	"syscall"
	"time"

	"github.com/shirou/gopsutil/v4/process"
)

// owned is what must not outlive this program: processes and a temporary directory.
var owned struct {
	sync.Mutex
	folder    string
	processes map[*program]bool
	ports     map[int]bool // given to servers
}

// own creates the temporary directory, and makes an interrupted run clean up with disown.
func own() error {
	folder, err := os.MkdirTemp("", "delayer-bench-")
	if err != nil {
		return err
	}
	owned.folder, owned.processes, owned.ports = folder, map[*program]bool{}, map[int]bool{}
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

// abort ends the run, whatever it is doing. A test replaces it.
var abort = func(err error) {
	fmt.Fprintln(os.Stderr, "bench:", err)
	disown()
	os.Exit(1)
}

// newFolder returns an empty directory that is removed at the end.
func newFolder() string { return must(os.MkdirTemp(owned.folder, "")) }

// program is a process started by this one that ends with it.
type program struct {
	cmd     *exec.Cmd
	exit    chan struct{}
	err     error       // result; read it after exit
	stopped atomic.Bool // by us
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
	select {
	case <-p.exit: // by itself
		return
	default:
	}
	p.stopped.Store(true)
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

func (p *program) kill() {
	p.stopped.Store(true)
	p.cmd.Process.Kill()
	p.wait()
}

// daemon is a server process of this run. If it ends before we stop it, the run aborts.
type daemon struct {
	*program
	addr string
	log  string // file with its output; "" for none
}

// freeAddr returns an unused address that it never returns again: two servers that start at the same time must
// not get the same one. Its port is below those of outgoing connections, one of which could take it before the
// server does.
func freeAddr() string {
	const first, last = 10000, 29999
	owned.Lock()
	defer owned.Unlock()
	for {
		port := first + rand.IntN(last-first+1)
		addr := fmt.Sprint("127.0.0.1:", port)
		l, err := net.Listen("tcp", addr)
		if err != nil {
			continue
		}
		l.Close()
		if !owned.ports[port] {
			owned.ports[port] = true
			return addr
		}
	}
}

// startDaemon starts the server with its output in a file, and waits until it accepts connections.
func startDaemon(addr, name string, args ...string) *daemon {
	cmd := exec.Command(must(exec.LookPath(name)), args...)
	log := must(os.Create(filepath.Join(newFolder(), "log")))
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	return startListening(addr, cmd, log.Name())
}

// startListening starts the server, whose output is in the file log, if any.
func startListening(addr string, cmd *exec.Cmd, log string) *daemon {
	d := &daemon{must(start(cmd)), addr, log}
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); {
		select {
		case <-d.exit:
			d.wait()
			check(d.ended("at once"))
		case <-time.After(10 * time.Millisecond):
		}
		if c, err := net.Dial("tcp", addr); err == nil {
			c.Close()
			go d.watch()
			return d
		}
	}
	d.stop()
	check(d.ended("as it does not answer"))
	return nil
}

// watch aborts the run if the server ends by itself: what was measured until then is worth nothing, and a
// server that crashes under our scripts is the gravest fault of all.
func (d *daemon) watch() {
	<-d.exit
	if !d.stopped.Load() {
		abort(d.ended("by itself"))
	}
}

// ended says how the server ended, and what it wrote last.
func (d *daemon) ended(why string) error {
	text, _ := os.ReadFile(d.log)
	const most = 64 << 10 // Redis's report of a crash has some 20 KB
	text = text[max(len(text)-most, 0):]
	return fmt.Errorf("%s on %s ended %s: %v; its log:\n%s", filepath.Base(d.cmd.Path), d.addr, why, d.cmd.ProcessState, text)
}

func (p *program) process() *process.Process {
	return must(process.NewProcess(int32(p.cmd.Process.Pid)))
}

// residentBytes returns the memory of the process.
func (p *program) residentBytes() float64 { return float64(must(p.process().MemoryInfo()).RSS) }

// cpu returns the CPU time of the process.
func (p *program) cpu() time.Duration {
	t := must(p.process().Times())
	return time.Duration((t.User + t.System) * float64(time.Second))
}

// ownCPU returns the CPU time of this process.
func ownCPU() time.Duration {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
