package main

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/config"
)

// configuration is the loaded configuration and its source.
type configuration struct {
	config   config.Config
	isFile   bool            // loaded from a file
	searched string          // the file found without -c; empty: none
	warnings config.Problems // ignored or replaced settings; and the Redis that a command uses by default
}

// findConfiguration loads the file of -c, or the first file that a search finds, or the environment and the defaults. A URL
// overrides the address of Redis. A daemon without file, variables and URL fails unless it is started with --dev; a command
// prints which Redis it uses.
func findConfiguration(o options) (found configuration, err error) {
	path, tried := o.configuration, []string(nil)
	if path == "" && !o.noFile {
		path, tried = config.Search()
		found.searched = path
	}
	variables := config.Variables()
	missing := fmt.Errorf("no configuration file found (looked for %s)", strings.Join(tried, ", "))
	switch {
	case path != "":
		found.isFile = true
		found.config, found.warnings, err = config.Load(path)
	case o.command == nil && !o.dev && len(variables) == 0 && o.redis == "":
		err = fmt.Errorf("%w: name one with -c FILENAME, say where Redis is with --redis or DELAYER_REDIS_URL, or try Delayer out with --dev", missing)
	default:
		found.config, found.warnings, err = config.FromEnvironment()
	}
	if err != nil {
		return found, fail(exitUsage, err)
	}
	if path == "" && len(variables) > 0 {
		found.searched = "the environment"
	} else if path == "" && o.redis != "" {
		found.searched = "--redis"
	}
	if err := useURL(&found.config.Redis, o); err != nil {
		return found, fail(exitUsage, err)
	}
	ofRedis := func(variable string) bool {
		return strings.HasPrefix(strings.ToUpper(variable), config.EnvironmentPrefix("redis"))
	}
	if path == "" && o.command != nil && !o.quiet && o.redis == "" && !slices.ContainsFunc(variables, ofRedis) {
		found.warnings = append(found.warnings, fmt.Sprintf("%v: using redis on %s", missing, found.config.Redis.Place()))
	}
	return found, nil
}

// again returns the options that find the same file again, or none, also from another folder.
func (o options) again(found configuration) options {
	o.noFile = !found.isFile
	if path, err := filepath.Abs(cmp.Or(o.configuration, found.searched)); found.isFile && err == nil {
		o.configuration = path
	}
	return o
}

// useURL takes address, user, password and TLS from the URL of --redis or of the environment, and partitions if the URL
// contains them. The in-memory Redis of --dev has its own address.
func useURL(r *config.Redis, o options) error {
	name, url := "--redis", o.redis
	if url == "" {
		name, url = config.URLVariable, os.Getenv(config.URLVariable)
	}
	if url == "" || o.dev {
		return nil
	}
	p, err := client.ParseURL(url)
	if err != nil {
		return fmt.Errorf("%s: %s", name, strings.TrimPrefix(err.Error(), "delayer: "))
	}
	r.Host, r.Sentinels, r.Cluster = p.Addr, nil, nil
	if host, port, err := net.SplitHostPort(p.Addr); err == nil {
		r.Host = host
		r.Port, _ = strconv.Atoi(port)
	}
	if p.Sentinels != "" {
		r.Sentinels = strings.Split(p.Sentinels, ",")
	}
	if p.Cluster != "" {
		r.Cluster = strings.Split(p.Cluster, ",")
	}
	r.SentinelMaster, r.SentinelUsername, r.SentinelPassword = p.SentinelMaster, p.SentinelUsername, p.SentinelPassword
	r.Username, r.Password, r.Database, r.TLS = p.Username, p.Password, p.Database, p.TLS != nil
	r.Partitions = cmp.Or(p.Partitions, r.Partitions)
	return nil
}

// printWarnings prints one warning per line. Each begins with its position in the file, so that editors can jump
// there.
func printWarnings(w io.Writer, c configuration) {
	for _, warning := range c.warnings {
		fmt.Fprintln(w, warning)
	}
}

// connect opens the connections of the [redis] section. An error is one of the configuration.
func connect(r config.Redis) (connections client.Redis, o client.PoolOptions, err error) {
	if o, err = poolOptions(r); err == nil {
		connections, err = client.Connect(o)
	}
	if err != nil {
		err = fail(exitUsage, err)
	}
	return connections, o, err
}

// poolOptions converts the [redis] section for the client, where -1 means "none" or "no limit".
func poolOptions(r config.Redis) (client.PoolOptions, error) {
	encryption, err := tlsConfig(r)
	return client.PoolOptions{
		Addr:             r.Addr(),
		Sentinels:        strings.Join(r.Sentinels, ","),
		SentinelMaster:   r.SentinelMaster,
		SentinelUsername: r.SentinelUsername,
		SentinelPassword: r.SentinelPassword,
		Cluster:          strings.Join(r.Cluster, ","),

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
