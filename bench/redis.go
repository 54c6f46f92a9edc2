package main

import (
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

// startRedis starts the redis-server in PATH with additional settings.
func startRedis(settings ...string) *Redis {
	addr := freeAddr()
	_, port, _ := net.SplitHostPort(addr)
	d := startDaemon(addr, "redis-server", append([]string{
		"--port", port, "--bind", "127.0.0.1", "--dir", newFolder(),
		"--save", "", "--rdbcompression", "no", "--enable-debug-command", "local", "--loglevel", "warning",
	}, settings...)...)
	return &Redis{daemon: d, Pool: newPool("tcp", addr, 40)}
}

func newPool(network, addr string, size int) *redis.Pool {
	return &redis.Pool{
		MaxIdle: size, MaxActive: size, Wait: true,
		Dial: func() (redis.Conn, error) { return redis.Dial(network, addr) },
	}
}

func (r *Redis) stop() {
	r.Pool.Close()
	r.daemon.stop()
}

// do runs one command.
func (r *Redis) do(command string, args ...any) any {
	conn := r.Pool.Get()
	defer conn.Close()
	return must(conn.Do(command, args...))
}

// clear empties the Redis.
func (r *Redis) clear() {
	r.do("FLUSHALL", "SYNC")
	runtime.GC()
}

// keep saves the contents to disk; restore loads them, which is faster than creating them again.
func (r *Redis) keep() { r.do("SAVE") }

func (r *Redis) restore() {
	r.do("DEBUG", "RELOAD", "NOSAVE")
	runtime.GC()
}

// info returns the sum of these fields of INFO.
func (r *Redis) info(fields ...string) (sum float64) {
	for line := range strings.Lines(must(redis.String(r.do("INFO"), nil))) {
		if name, value, _ := strings.Cut(strings.TrimSpace(line), ":"); slices.Contains(fields, name) {
			sum += must(strconv.ParseFloat(value, 64))
		}
	}
	return sum
}

// cpu returns Redis's CPU time as it reports it.
func (r *Redis) cpu() time.Duration {
	return time.Duration(r.info("used_cpu_user", "used_cpu_sys") * float64(time.Second))
}

func (r *Redis) memory() float64 { return r.info("used_memory") }

// commands counts the commands that Redis has processed, including those called in scripts.
func (r *Redis) commands() float64 { return r.info("total_commands_processed") }

// connections counts the clients' connections, except ours for measuring.
func (r *Redis) connections() float64 {
	return r.info("connected_clients") - float64(r.Pool.ActiveCount())
}

// sent counts the commands that clients send while f runs, without those called in scripts.
func (r *Redis) sent(f func()) int {
	conn := must(redis.Dial("tcp", r.addr))
	must(conn.Do("MONITOR"))
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
	return <-total
}
