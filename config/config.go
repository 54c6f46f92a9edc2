// Package config reads delayer.conf into a typed and checked Config.
//
// Load reads a file and the environment, or only the environment. A wrong value is an error that names its line and
// says what would be right, never a guess. Mistakes that the original accepts silently are reported, too: as warnings
// where they are harmless (an unknown or repeated key), as errors where a guess would do harm (a password cut at a #,
// an octal number). No message reveals a secret.
package config

import (
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Config holds the settings of delayer.conf, with the defaults of the shipped file. Paths are absolute.
type Config struct {
	Delayer Delayer
	Redis   Redis
	HTTP    HTTP
	// Schedules are the [schedule.NAME] sections in order.
	Schedules []Schedule
}

// Delayer is the [delayer] section.
type Delayer struct {
	PID           string        // pid file; "" to allow several instances
	TimerInterval time.Duration // between passes, 1 ms to a day
	DeadMaxAge    time.Duration // how long dead letters are kept; 0: for ever
	DeadMax       int           // maximum number per topic; 0: no maximum
	AccessLog     string        // "" for none
	ErrorLog      string        // "" for none
	LogFormat     string        // "text" or "json"
}

// Redis is the [redis] section.
type Redis struct {
	Host         string // name, address, or path of a unix socket
	Port         int    // 1 to 65535; ignored for a socket
	Database     int    // argument of SELECT
	Username     string // ACL user; "" for Redis's default user
	Password     string // "" for none
	PasswordFile string // file that Password was read from, if any
	// Sentinels (host:port) know the address of the master that they call SentinelMaster. With them, Host and
	// Port are ignored. The credentials below are for the sentinels themselves.
	Sentinels                                                []string
	SentinelMaster                                           string
	SentinelUsername, SentinelPassword, SentinelPasswordFile string
	// Cluster lists some nodes (host:port) of a Redis Cluster. With it, Host and Port are ignored.
	Cluster []string

	Prefix          string        // start of every key; never empty
	Partitions      int           // 1 to 1,024; a single one has the original's keys
	MaxIdle         int           // maximum idle connections, at most MaxActive
	MaxActive       int           // maximum connections; 0: no limit
	IdleTimeout     time.Duration // after which an idle connection is closed; 0: never
	ConnMaxLifetime time.Duration // after which any connection is closed; 0: never
	ConnectTimeout  time.Duration // at least 1 ms, like the two below
	ReadTimeout     time.Duration
	WriteTimeout    time.Duration
	TLS             bool
	TLSCA           string // PEM file; "" for the system's authorities
	TLSCert         string // PEM file of the client's certificate; together with TLSKey
	TLSKey          string // PEM file
	TLSSkipVerify   bool   // do not verify the server's certificate
}

// HTTP is the [http] section.
type HTTP struct {
	Listen       string        // host:port, port 0 for a free one; "" for no HTTP server
	Token        string        // required of requests; "" for none
	TokenFile    string        // file that Token was read from, if any
	Users        []User        // for basic authentication, besides the token
	UsersFile    string        // file that Users were read from, if any
	TLSCert      string        // PEM file; together with TLSKey
	TLSKey       string        // PEM file
	ReadOnly     bool          // nothing can be pushed, taken or changed
	Insecure     bool          // allow other machines without Token and Users
	Hosts        []string      // further host names of the server
	MaxBody      int           // maximum size of a request's body in bytes
	PollTimeout  time.Duration // how long /pop waits for a job, 1 s to an hour
	TopicLabels  int           // topics with their own labels in /metrics
	ReadyMaxLate time.Duration // lateness at which /readyz reports degraded; 0: not checked
}

// User is a name with its password.
type User struct{ Name, Password string }

// Default returns the settings of the shipped delayer.conf, which apply unless a file or an environment
// variable changes them. Relative paths start at the current directory.
func Default() Config {
	var c Config
	for _, k := range c.keys() {
		if err := k.set(k.standard); err != nil {
			panic(k.String() + ": " + err.Error()) // a bug in the table
		}
	}
	return c
}

// Addr is where Redis listens: "host:port", or the path of its unix socket. It is empty with Sentinels or a
// Cluster.
func (r Redis) Addr() string {
	if len(r.Sentinels) > 0 || len(r.Cluster) > 0 {
		return ""
	}
	if isSocket(r.Host) {
		return r.Host
	}
	return net.JoinHostPort(r.Host, strconv.Itoa(r.Port))
}

// isSocket tells the path of a unix socket from a host. A path that starts with @ is in Linux's abstract name
// space.
func isSocket(host string) bool {
	return strings.HasPrefix(host, "@") || strings.HasPrefix(host, "/") || isRelative(host) || filepath.IsAbs(host)
}

func isRelative(host string) bool { return strings.HasPrefix(host, ".") }
