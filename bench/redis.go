package main

import (
	"bufio"
	"net"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

// Redis is this run's redis-server with a pool of plain connections for the floor, the original's commands
// and measurements.
type Redis struct {
	*daemon
	Pool *redis.Pool
}

// startRedis starts one with additional settings.
func startRedis(settings ...string) (*Redis, error) { return startEngine("redis-server", settings...) }

// startEngine starts one with another server program.
func startEngine(program string, settings ...string) (*Redis, error) {
	dir, err := newFolder()
	if err != nil {
		return nil, err
	}
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	_, port, _ := net.SplitHostPort(addr)
	d, err := startDaemon(addr, program, append([]string{
		"--port", port, "--bind", "127.0.0.1", "--dir", dir,
		"--save", "", "--rdbcompression", "no", "--enable-debug-command", "local", "--loglevel", "warning",
	}, settings...)...)
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

// keep saves the contents to disk; restore loads them, which is faster than creating them again.
func (r *Redis) keep() error {
	_, err := r.do("SAVE")
	return err
}

func (r *Redis) restore() error {
	_, err := r.do("DEBUG", "RELOAD", "NOSAVE")
	runtime.GC()
	return err
}

// infoOf returns the sum of these fields of INFO.
func infoOf(conn redis.Conn, fields ...string) (sum float64, err error) {
	text, err := redis.String(conn.Do("INFO"))
	if err != nil {
		return 0, err
	}
	for lines := bufio.NewScanner(strings.NewReader(text)); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), ":")
		if slices.Contains(fields, name) {
			n, err := strconv.ParseFloat(value, 64)
			if err != nil {
				return 0, err
			}
			sum += n
		}
	}
	return sum, nil
}

func (r *Redis) info(field string) (float64, error) {
	conn := r.Pool.Get()
	defer conn.Close()
	return infoOf(conn, field)
}

// cpu returns Redis's CPU time as it reports it.
func (r *Redis) cpu() (time.Duration, error) {
	conn := r.Pool.Get()
	defer conn.Close()
	return cpuOfRedis(conn)
}

func cpuOfRedis(conn redis.Conn) (time.Duration, error) {
	seconds, err := infoOf(conn, "used_cpu_user", "used_cpu_sys")
	return time.Duration(seconds * float64(time.Second)), err
}

func (r *Redis) memory() (float64, error) { return r.info("used_memory") }

// sent counts the commands that clients send while f runs, without those called in scripts, which Redis's own
// count includes.
func (r *Redis) sent(f func()) (int, error) {
	conn, err := redis.Dial("tcp", r.addr)
	if err != nil {
		return 0, err
	}
	if _, err := conn.Do("MONITOR"); err != nil {
		return 0, err
	}
	total := make(chan int)
	go func() {
		count := 0
		for {
			line, err := redis.String(conn.Receive())
			if err != nil {
				break
			}
			if who, _, _ := strings.Cut(line, "]"); !strings.HasSuffix(who, " lua") {
				count++
			}
		}
		total <- count
	}()
	f()
	conn.Close()
	return <-total, nil
}
