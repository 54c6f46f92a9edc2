package daemon

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/config"
	"github.com/mix-basic/delayer/internal/exit"
	"github.com/mix-basic/delayer/internal/fleet"
	"github.com/mix-basic/delayer/internal/variables"
)

// Options are what the command line says about the daemon and its configuration.
type Options struct {
	Configuration string // file of -c; empty: search for one
	Redis         string // URL of --redis; empty: not given
	Background    bool
	Dev           bool
	ForCommand    bool   // it is for a command, which needs no configuration
	Quiet         bool   // a command does not print which Redis it uses
	Version       string // of the program

	noFile bool // do not search
}

// Configuration is the loaded configuration and its source.
type Configuration struct {
	config.Loaded        // its Warnings also name the Redis that a command uses by default
	File          string // that it was loaded from; empty: none

	from    string // the file found without -c, or what stands for one; empty: neither
	options Options
}

// FindConfiguration loads the file of -c, or the first file that a search finds, or the environment and the defaults. A URL
// overrides the address of Redis. A daemon without file, variables and URL fails unless it is started with --dev; a command
// prints which Redis it uses.
func FindConfiguration(o Options) (found Configuration, err error) {
	path, tried := o.Configuration, []string(nil)
	if path == "" && !o.noFile {
		path, tried = search()
		found.from = path
	}
	found.File, found.options = path, o
	missing := fmt.Errorf("no configuration file found (looked for %s)", strings.Join(tried, ", "))
	if found.Loaded, err = config.Load(path); err != nil {
		return found, exit.With(exit.Usage, err)
	}
	hasURL := os.Getenv(variables.RedisURL) != ""
	isSet := func(prefix string) bool {
		return slices.ContainsFunc(found.Settings, func(s config.Setting) bool { return strings.HasPrefix(s.Name, prefix) && s.From != "" })
	}
	noRedis := o.Redis == "" && !hasURL && !isSet("redis.")
	switch {
	case path != "":
	case hasURL || isSet(""):
		found.from = "the environment"
	case o.Redis != "":
		found.from = "--redis"
	case !o.ForCommand && !o.Dev:
		return found, exit.With(exit.Usage, fmt.Errorf("%w: name one with -c FILENAME, say where Redis is with --redis or DELAYER_REDIS_URL, or try Delayer out with --dev", missing))
	}
	if err := found.useURL(); err != nil {
		return found, exit.With(exit.Usage, err)
	}
	if path == "" && noRedis && o.ForCommand && !o.Quiet {
		found.Warnings = append(found.Warnings, fmt.Sprintf("%v: using redis on %s", missing, whereIs(found.Redis)))
	}
	return found, nil
}

// search returns the first delayer.conf that exists in the current directory, the executable's directory, the
// delayer directory of os.UserConfigDir, /etc/delayer and /etc. An empty path means none; places lists where
// it searched, in order.
//
// An unreadable file counts as found, and config.Load reports the reason: continuing would hide it. A file in a
// directory that cannot be entered does not count, because services often run with somebody else's home.
func search() (path string, places []string) {
	const name = "delayer.conf"
	places = []string{name}
	if executable, err := os.Executable(); err == nil {
		places = append(places, filepath.Join(filepath.Dir(executable), name))
	}
	if dir, err := os.UserConfigDir(); err == nil {
		places = append(places, filepath.Join(dir, "delayer", name))
	}
	if runtime.GOOS != "windows" {
		places = append(places, "/etc/delayer/"+name, "/etc/"+name)
	}
	for _, place := range places {
		if _, err := os.Stat(place); err == nil {
			return place, places
		}
	}
	return "", places
}

// again returns the options that find the same file again, or none, also from another folder.
func (c Configuration) again() Options {
	o := c.options
	o.noFile = c.File == ""
	if path, err := filepath.Abs(c.File); c.File != "" && err == nil {
		o.Configuration = path
	}
	return o
}

// useURL takes what the URL of --redis or of the environment says. The in-memory Redis of --dev has its own address.
func (c *Configuration) useURL() error {
	name, url := "--redis", c.options.Redis
	if url == "" {
		name, url = variables.RedisURL, os.Getenv(variables.RedisURL)
	}
	if url == "" || c.options.Dev {
		return nil
	}
	p, err := client.ParseURL(url)
	if err != nil {
		return fmt.Errorf("%s: %s", name, strings.TrimPrefix(err.Error(), "delayer: "))
	}
	host, port, err := net.SplitHostPort(p.Addr)
	if err != nil { // a unix socket, or none
		host, port = cmp.Or(p.Addr, c.Redis.Host), strconv.Itoa(c.Redis.Port)
	}
	return c.Override(name, map[string]string{
		"redis.host": host, "redis.port": port, "redis.sentinels": strings.Join(p.Sentinels, ","), "redis.cluster": strings.Join(p.Cluster, ","),
		"redis.sentinel_master": p.SentinelMaster, "redis.sentinel_username": p.SentinelUsername, "redis.sentinel_password": p.SentinelPassword,
		"redis.username": p.Username, "redis.password": p.Password, "redis.database": strconv.Itoa(p.Database), "redis.tls": fmt.Sprint(p.TLS != nil),
		"redis.partitions": strconv.Itoa(cmp.Or(p.Partitions, c.Redis.Partitions)),
	})
}

// PrintWarnings prints one warning per line. Each begins with its position in the file, so that editors can jump
// there.
func (c Configuration) PrintWarnings(w io.Writer) {
	for _, warning := range c.Warnings {
		fmt.Fprintln(w, warning)
	}
}

// Connect opens the connections of the [redis] section, and the jobs there. An error is one of the configuration.
func Connect(r config.Redis) (connections *client.Redis, jobs *fleet.Fleet, o client.PoolOptions, err error) {
	if o, err = poolOptions(r); err == nil {
		connections, err = client.Connect(o)
	}
	if err == nil {
		jobs, err = fleet.Open((*fleet.Redis)(connections), r.Prefix)
	}
	if err != nil {
		err = exit.With(exit.Usage, err)
	}
	return connections, jobs, o, err
}

// whereIs describes where Redis is: its address, the sentinels and their master, or nodes of the cluster.
func whereIs(r config.Redis) string {
	if len(r.Cluster) > 0 {
		return "cluster " + strings.Join(r.Cluster, ", ")
	}
	if len(r.Sentinels) > 0 {
		return fmt.Sprintf("%s, as sentinels %s say", r.SentinelMaster, strings.Join(r.Sentinels, ", "))
	}
	return r.Addr()
}

// poolOptions converts the [redis] section for the client, where -1 means "none" or "no limit".
func poolOptions(r config.Redis) (client.PoolOptions, error) {
	encryption, err := tlsConfig(r)
	return client.PoolOptions{
		Addr:             r.Addr(),
		Sentinels:        r.Sentinels,
		SentinelMaster:   r.SentinelMaster,
		SentinelUsername: r.SentinelUsername,
		SentinelPassword: r.SentinelPassword,
		Cluster:          r.Cluster,
		Partitions:       r.Partitions,

		Username:        r.Username,
		Password:        r.Password,
		Database:        r.Database,
		TLS:             encryption,
		ConnectTimeout:  r.ConnectTimeout,
		ReadTimeout:     r.ReadTimeout,
		WriteTimeout:    r.WriteTimeout,
		MaxActive:       noneIfZero(r.MaxActive),
		MaxIdle:         noneIfZero(r.MaxIdle),
		IdleTimeout:     noneIfZero(r.IdleTimeout),
		MaxConnLifetime: r.ConnMaxLifetime,
	}, err
}

func noneIfZero[N ~int | ~int64](n N) N {
	if n == 0 {
		return -1
	}
	return n
}

// tlsConfig returns nil without TLS. Its errors name the wrong key in the file.
func tlsConfig(r config.Redis) (*tls.Config, error) {
	if !r.TLS {
		return nil, nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: r.TLSSkipVerify}
	if r.TLSCA != "" {
		pem, err := os.ReadFile(r.TLSCA)
		if err != nil {
			return nil, fmt.Errorf("redis.tls_ca: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("redis.tls_ca: %s: want certificates in PEM format", r.TLSCA)
		}
	}
	if r.TLSCert != "" {
		pair, err := keyPair("redis", r.TLSCert, r.TLSKey)
		if err != nil {
			return nil, err
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}
