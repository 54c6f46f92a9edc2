package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/shirou/gopsutil/v4/process"
)

// daemon is a server program that belongs to this run.
type daemon struct {
	addr string
	cmd  *exec.Cmd
	exit chan struct{}
}

func freeAddr() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

// startDaemon runs the program and waits until it takes connections.
func startDaemon(addr, program string, args ...string) (*daemon, error) {
	path, err := exec.LookPath(program)
	if err != nil {
		return nil, err
	}
	d := &daemon{addr: addr, cmd: exec.Command(path, args...), exit: make(chan struct{})}
	d.cmd.Stderr = os.Stderr
	if err := d.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		d.cmd.Wait()
		close(d.exit)
	}()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); {
		select {
		case <-d.exit:
			return nil, fmt.Errorf("%s ended at once", program)
		case <-time.After(10 * time.Millisecond):
		}
		if c, err := net.Dial("tcp", addr); err == nil {
			c.Close()
			return d, nil
		}
	}
	d.stop()
	return nil, fmt.Errorf("%s does not answer", program)
}

func (d *daemon) stop() {
	d.cmd.Process.Kill()
	<-d.exit
}

// residentBytes is the memory that the process has.
func (d *daemon) residentBytes() (float64, error) {
	p, err := process.NewProcess(int32(d.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	m, err := p.MemoryInfo()
	if err != nil {
		return 0, err
	}
	return float64(m.RSS), nil
}

// cpu is the processor time that the process has used.
func (d *daemon) cpu() (time.Duration, error) {
	p, err := process.NewProcess(int32(d.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	t, err := p.Times()
	if err != nil {
		return 0, err
	}
	return time.Duration((t.User + t.System) * float64(time.Second)), nil
}

// Redis is this run's redis-server, with a pool of plain connections for the
// floor, the original's commands and the looking on.
type Redis struct {
	*daemon
	Pool *redis.Pool
}

func startRedis(dir string) (*Redis, error) {
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	_, port, _ := net.SplitHostPort(addr)
	d, err := startDaemon(addr, "redis-server", "--port", port, "--bind", "127.0.0.1", "--dir", dir,
		"--save", "", "--rdbcompression", "no", "--enable-debug-command", "local", "--loglevel", "warning")
	if err != nil {
		return nil, err
	}
	return &Redis{daemon: d, Pool: newPool(addr, 40)}, nil
}

func newPool(addr string, size int) *redis.Pool {
	return &redis.Pool{
		MaxIdle: size, MaxActive: size, Wait: true,
		Dial: func() (redis.Conn, error) { return redis.Dial("tcp", addr) },
	}
}

func (r *Redis) stop() {
	r.Pool.Close()
	r.daemon.stop()
}

// do runs one command.
func (r *Redis) do(command string, args ...any) (any, error) {
	conn := r.Pool.Get()
	defer conn.Close()
	return conn.Do(command, args...)
}

// clear empties the Redis.
func (r *Redis) clear() error {
	_, err := r.do("FLUSHALL", "SYNC")
	runtime.GC()
	return err
}

// keep writes what is in Redis to its disk; restore brings that back, which is
// faster than to make it anew.
func (r *Redis) keep() error {
	_, err := r.do("SAVE")
	return err
}

func (r *Redis) restore() error {
	_, err := r.do("DEBUG", "RELOAD", "NOSAVE")
	runtime.GC()
	return err
}

func (r *Redis) info(section, field string) (float64, error) {
	conn := r.Pool.Get()
	defer conn.Close()
	return infoOf(conn, section, field)
}

func infoOf(conn redis.Conn, section, field string) (float64, error) {
	text, err := redis.String(conn.Do("INFO", section))
	if err != nil {
		return 0, err
	}
	lines := bufio.NewScanner(strings.NewReader(text))
	for lines.Scan() {
		if value, ok := strings.CutPrefix(lines.Text(), field+":"); ok {
			return strconv.ParseFloat(value, 64)
		}
	}
	return 0, fmt.Errorf("INFO %s has no %s", section, field)
}

// cpu is the processor time that the Redis has used.
func (r *Redis) cpu() (time.Duration, error) {
	conn := r.Pool.Get()
	defer conn.Close()
	return cpuOfRedis(conn)
}

func cpuOfRedis(conn redis.Conn) (time.Duration, error) {
	user, err1 := infoOf(conn, "cpu", "used_cpu_user")
	system, err2 := infoOf(conn, "cpu", "used_cpu_sys")
	return time.Duration((user + system) * float64(time.Second)), errors.Join(err1, err2)
}

func (r *Redis) memory() (float64, error) { return r.info("memory", "used_memory") }

// ownCPU is the processor time of this process.
func ownCPU() time.Duration {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// untilZero waits until the number that count tells is 0.
func untilZero(ctx context.Context, count func() (int, error)) error {
	for {
		n, err := count()
		if err != nil || n == 0 {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(5 * time.Millisecond):
		}
	}
}
