package daemon

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"

	"github.com/mix-basic/delayer/config"
	"github.com/mix-basic/delayer/internal/devredis"
	"github.com/mix-basic/delayer/internal/exit"
	"github.com/mix-basic/delayer/internal/variables"
)

// startDev starts the in-memory Redis of --dev at the configured address, or on a free loopback port if that is taken,
// and points the configuration to it. It removes all files from the configuration. notes explain how to reach the Redis.
func startDev(o Options, c *config.Config) (redis *devredis.Server, notes []string, err error) {
	if c.Redis.TLS {
		return nil, nil, exit.With(exit.Usage, errors.New("--dev: the in-memory Redis has no TLS: set redis.tls = false"))
	}
	c.Delayer.PID, c.Delayer.AccessLog, c.Delayer.ErrorLog = "", "", ""
	configured := c.Redis
	if len(c.Redis.Sentinels) > 0 {
		notes = append(notes, "Note: --dev asks no sentinels.")
		c.Redis.Sentinels, c.Redis.SentinelMaster, c.Redis.SentinelUsername, c.Redis.SentinelPassword = nil, "", "", ""
	}
	if len(c.Redis.Cluster) > 0 {
		notes = append(notes, "Note: --dev asks no cluster.")
		c.Redis.Cluster = nil
	}
	redis, err = listenDev(c.Redis)
	if err != nil {
		return nil, nil, exit.With(exit.Failed, fmt.Errorf("--dev: %w", err))
	}
	host, port, _ := net.SplitHostPort(redis.Addr)
	c.Redis.Host = host
	c.Redis.Port, _ = strconv.Atoi(port)
	return redis, append(notes,
		fmt.Sprintf("In-memory Redis on %s: nothing is kept.", redis.Addr),
		"Try: "+tryLine(o, configured, c.Redis),
	), nil
}

// whereDevIs returns the line for users whose programs would find another Redis at the configured address; empty if --dev has that one.
func whereDevIs(configured, actual config.Redis) string {
	usual := configured.Addr()
	if _, port, _ := net.SplitHostPort(usual); usual == "" || port == strconv.Itoa(actual.Port) {
		return ""
	}
	return fmt.Sprintf("Use redis://%s in your programs: this Delayer does not use the Redis on %s", actual.Addr(), usual)
}

// devHTTP lists the addresses of --dev's HTTP server if none is configured. The first free one is used.
var devHTTP = []string{"127.0.0.1:9277", "127.0.0.1:0"}

// tryLine returns a shell command that pushes a job into the Redis at actual, with the same
// configuration file, if any.
func tryLine(o Options, configured, actual config.Redis) string {
	line := "delayer"
	if o.Configuration != "" {
		line += fmt.Sprintf(" -c '%s'", o.Configuration)
	}
	place := url.URL{Scheme: "redis", Host: actual.Addr()}
	if place.Host != configured.Addr() || place.Host != config.Default().Redis.Addr() || os.Getenv(variables.RedisURL) != "" {
		if actual.Password != "" {
			place.User = url.UserPassword(actual.Username, "PASSWORD")
		}
		if actual.Database > 0 {
			place.Path = strconv.Itoa(actual.Database)
		}
		line += " --redis " + place.String()
	}
	return line + " push greetings 5 hello"
}

func listenDev(r config.Redis) (*devredis.Server, error) {
	var users []devredis.User
	if r.Password != "" {
		users = append(users, devredis.User{Name: r.Username, Password: r.Password})
	}
	if _, _, err := net.SplitHostPort(r.Addr()); err == nil { // not a unix socket
		if redis, err := devredis.Start(r.Addr(), users...); err == nil {
			return redis, nil
		}
	}
	return devredis.Start("127.0.0.1:0", users...)
}
