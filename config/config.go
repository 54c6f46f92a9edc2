// Package config reads delayer.conf into a typed, checked Config.
//
// gopkg.in/ini.v1, which the original Delayer reads its file with, reads each line.
// What that parser is silent about gets a message with its line: a warning where
// the original's files run on unharmed (an unknown or repeated key), an error where
// a guess would do harm (a password cut at a #, an octal number).
package config

import (
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Config is what delayer.conf says, with the defaults of the shipped file for
// what it leaves out. Its paths are absolute.
type Config struct {
	Delayer Delayer
	Redis   Redis
	HTTP    HTTP
	// Schedules are the [schedule.NAME] sections, in their order.
	Schedules []Schedule
}

// Delayer is the [delayer] section.
type Delayer struct {
	PID           string        // pid file; empty: several instances may run
	TimerInterval time.Duration // between two passes, 1 ms to a day
	DeadMaxAge    time.Duration // for how long dead letters are kept; 0 is for ever
	DeadMax       int           // dead letters of a topic at most; 0 is any number
	AccessLog     string        // empty: not written
	ErrorLog      string        // empty: not written
	LogFormat     string        // "text" or "json"
}

// Redis is the [redis] section.
type Redis struct {
	Host         string // name, address, or the path of a unix socket
	Port         int    // 1 to 65535; of no meaning to a socket
	Database     int    // the number given to SELECT
	Username     string // ACL user; empty: Redis's default user
	Password     string // empty: none is sent
	PasswordFile string // the file that Password was read from, if so
	// Sentinels, host:port each, know where the master is that they call SentinelMaster: with them Host and
	// Port mean nothing. What follows is as Username, Password and PasswordFile, for the sentinels themselves.
	Sentinels                                                []string
	SentinelMaster                                           string
	SentinelUsername, SentinelPassword, SentinelPasswordFile string
	// Cluster are some nodes, host:port each, of a Redis Cluster: with them Host and Port mean nothing.
	Cluster []string

	Prefix             string        // begins the name of every key; never empty
	Partitions         int           // parts that the jobs are divided into, 1 to 1,024; 1 has the original's keys
	PreviousPartitions int           // how many they were, as long as jobs are left there; 0: they were always as many
	MaxIdle            int           // unused connections that are kept, at most MaxActive
	MaxActive          int           // open connections; 0: no limit
	IdleTimeout        time.Duration // closes an unused connection; 0: never
	ConnMaxLifetime    time.Duration // closes any connection that old; 0: never
	ConnectTimeout     time.Duration // at least 1 ms, as the two below
	ReadTimeout        time.Duration
	WriteTimeout       time.Duration
	TLS                bool
	TLSCA              string // PEM file; empty: the system's authorities
	TLSCert            string // PEM file of the client's certificate; set together with TLSKey
	TLSKey             string // PEM file
	TLSSkipVerify      bool   // true: the server's certificate isn't checked
}

// HTTP is the [http] section.
type HTTP struct {
	Listen       string        // "host:port", port 0 is a free one; empty: there is no HTTP front
	Token        string        // that a request bears; empty: none
	TokenFile    string        // the file that Token was read from, if so
	Users        []User        // who may log in by basic auth, beside the token
	UsersFile    string        // the file that Users were read from, if so
	TLSCert      string        // PEM file; set together with TLSKey
	TLSKey       string        // PEM file
	ReadOnly     bool          // nothing can be pushed, taken or changed
	Insecure     bool          // it may serve others than this machine without Token and Users
	Hosts        []string      // names beside Listen's and localhost that it is reached by, in any case
	MaxBody      int           // bytes of a request's body
	PollTimeout  time.Duration // for how long /pop waits for a job, 1 s to an hour
	TopicLabels  int           // topics with labels of their own in /metrics
	ReadyMaxLate time.Duration // above which lateness /readyz says degraded; 0: it is not looked at
}

// User is a name and the password that goes with it.
type User struct{ Name, Password string }

// Default is the shipped delayer.conf: what holds for a key that no file and no
// environment variable sets. Its relative paths are taken from the current
// directory.
func Default() Config {
	var c Config
	for _, k := range c.keys() {
		if err := k.set(k.standard); err != nil {
			panic(k.String() + ": " + err.Error()) // the table contradicts itself
		}
	}
	return c
}

// Place is where Redis is, in words: its Addr, or whom the sentinels are asked for, or some nodes of the cluster.
func (r Redis) Place() string {
	if len(r.Cluster) > 0 {
		return "cluster " + strings.Join(r.Cluster, ", ")
	}
	if len(r.Sentinels) > 0 {
		return fmt.Sprintf("%s, as sentinels %s say", r.SentinelMaster, strings.Join(r.Sentinels, ", "))
	}
	return r.Addr()
}

// Addr is where Redis listens: "host:port", or the path of its unix socket. With Sentinels, or a Cluster, it is empty.
func (r Redis) Addr() string {
	if len(r.Sentinels) > 0 || len(r.Cluster) > 0 {
		return ""
	}
	if isSocket(r.Host) {
		return r.Host
	}
	return net.JoinHostPort(r.Host, strconv.Itoa(r.Port))
}

// isSocket tells a unix socket's path from a host's name or address. The @ is
// Linux's abstract name space.
func isSocket(host string) bool {
	return strings.HasPrefix(host, "@") || strings.HasPrefix(host, "/") || isRelative(host) || filepath.IsAbs(host)
}

func isRelative(host string) bool { return strings.HasPrefix(host, ".") }
