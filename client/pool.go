package client

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/internal/redisconn"
)

// PoolOptions say how to reach Redis. The zero value is a Redis without a password on 127.0.0.1:6379.
//
// Of the limits and durations at the end, 0 means the default and a negative value that there is no limit. A duration
// above 0 and below a millisecond is ErrInvalid: it was probably given without a unit.
type PoolOptions struct {
	// Addr is host:port, or the path of a unix socket, which begins with "/", "./", "../" or "@". Empty means
	// 127.0.0.1:6379.
	Addr string
	// Sentinels are the addresses of Redis Sentinels, each host:port, and SentinelMaster is the name of the master that
	// they know. Addr must be empty then. They are dialled like the master, but with the user SentinelUsername and
	// SentinelPassword.
	Sentinels                                          []string
	SentinelMaster, SentinelUsername, SentinelPassword string
	// Cluster are the addresses of some nodes of a Redis Cluster, each host:port; the others are discovered. Addr,
	// Sentinels and Database must be empty then, and Partitions above 1 unless the prefix has a hash tag, as
	// {delayer}: has. The limits below hold for each node.
	Cluster []string
	// Username is the ACL user; empty means Redis's default user. It is used only together with Password.
	Username string
	// Password is empty if Redis asks for none.
	Password string
	// Database is the number given to SELECT.
	Database int
	// Partitions is as in WithPartitions, for OpenPool: a URL may contain it. Connect and NewPool do not divide
	// jobs: with several partitions here, they return ErrInvalid.
	Partitions int
	// TLS turns encryption on. An empty ServerName means the host in Addr; with sentinels, each server's own host.
	TLS *tls.Config

	// ConnectTimeout bounds a dial. ReadTimeout and WriteTimeout bound how long nothing may arrive or leave during
	// a reply or a command; large ones may take longer. The default is 3 s, so a call to a hung Redis fails and does
	// not hang too.
	ConnectTimeout, ReadTimeout, WriteTimeout time.Duration

	// MaxActive is the most open connections; further calls wait for one. The default is 32.
	MaxActive int
	// MaxIdle is how many idle connections are kept; here a negative number means none. The default is MaxActive, or
	// 32 if that has no limit.
	MaxIdle int
	// IdleTimeout closes a connection that was idle for that long. The default is 5 minutes.
	IdleTimeout time.Duration
	// MaxConnLifetime closes a connection of that age. By default there is no limit.
	MaxConnLifetime time.Duration
}

const (
	defaultAddr        = "127.0.0.1:6379"
	defaultTimeout     = 3 * time.Second
	defaultMaxActive   = 32
	defaultIdleTimeout = 5 * time.Minute
)

// Redis is what New and server.New work on: a *redis.Pool for a single server or for the master that Sentinels
// name, or the result of Connect, which may also be a Redis Cluster. It cannot be anything else.
type Redis interface {
	GetContext(ctx context.Context) (redis.Conn, error)
	Close() error
}

// Connect returns the Redis that the options name, for Clients and Servers to share. Its connections have timeouts
// for everything, calls wait for a free connection, and dead connections are noticed. Nothing is dialled before
// the first use. A wrong option is an error (ErrInvalid).
func Connect(o PoolOptions) (Redis, error) {
	err := o.checkUndivided()
	var r Redis
	if err == nil {
		r, err = o.connect()
	}
	if err != nil {
		return nil, failed("connect", "", err)
	}
	return r, nil
}

// NewPool is Connect for programs that also use the connections for other things. A cluster has no single pool:
// options that name one are an error (ErrInvalid).
func NewPool(o PoolOptions) (*redis.Pool, error) {
	if len(o.Cluster) > 0 {
		return nil, failed("connect", "", invalid("cluster", "it is set, and a pool leads to one server: want Connect"))
	}
	r, err := Connect(o)
	if err != nil {
		return nil, err
	}
	return r.(*redis.Pool), nil
}

// checkUndivided refuses partitions, which Connect does not pass on.
func (o PoolOptions) checkUndivided() error {
	if o.Partitions > 1 {
		return invalid("partitions", "connections do not divide jobs, and who uses them would not know that there are several partitions: "+
			"want OpenPool, or none here and WithPartitions in New, or Options.Partitions of a server")
	}
	return nil
}

// connect is Connect for a caller who sees to the partitions.
func (o PoolOptions) connect() (Redis, error) {
	dialer := redisconn.Dialer{
		Username: o.Username, Password: o.Password, Database: o.Database,
		TLS:            o.TLS,
		ConnectTimeout: limit(o.ConnectTimeout, defaultTimeout),
		ReadTimeout:    limit(o.ReadTimeout, defaultTimeout),
		WriteTimeout:   limit(o.WriteTimeout, defaultTimeout),
	}
	units := cmp.Or(checkUnit("connect timeout", o.ConnectTimeout), checkUnit("read timeout", o.ReadTimeout), checkUnit("write timeout", o.WriteTimeout),
		checkUnit("idle timeout", o.IdleTimeout), checkUnit("max connection lifetime", o.MaxConnLifetime))
	if wrong := cmp.Or(units, o.checkSentinels(), o.checkCluster()); wrong != nil {
		return nil, wrong
	}
	switch {
	case len(o.Cluster) > 0:
		return redisconn.NewCluster(o.Cluster, dialer, o.pool), nil
	case len(o.Sentinels) > 0:
		sentinels := dialer
		sentinels.Username, sentinels.Password, sentinels.Database = o.SentinelUsername, o.SentinelPassword, 0
		dialer.Locator = redisconn.NewSentinel(o.SentinelMaster, o.Sentinels, sentinels)
	default:
		dialer.Locator = redisconn.Fixed(cmp.Or(o.Addr, defaultAddr))
	}
	return o.pool(dialer), nil
}

// limit is a limit for redigo and net, to which 0 means no limit.
func limit[T int | time.Duration](set, byDefault T) T { return max(cmp.Or(set, byDefault), 0) }

func (o PoolOptions) pool(dialer redisconn.Dialer) *redis.Pool {
	maxActive := limit(o.MaxActive, defaultMaxActive)
	return &redis.Pool{
		DialContext:         dialer.Dial,
		TestOnBorrowContext: redisconn.CheckRested,
		MaxActive:           maxActive,
		MaxIdle:             limit(o.MaxIdle, cmp.Or(maxActive, defaultMaxActive)),
		IdleTimeout:         limit(o.IdleTimeout, defaultIdleTimeout),
		MaxConnLifetime:     limit(o.MaxConnLifetime, 0),
		Wait:                true,
	}
}

func (o PoolOptions) checkSentinels() error {
	if len(o.Sentinels) == 0 {
		if o.SentinelMaster != "" {
			return invalid("sentinels", "there are none to ask for the master "+strconv.Quote(o.SentinelMaster))
		}
		return nil
	}
	err := checkAddrs("sentinels", o.Sentinels)
	switch {
	case err != nil:
		return err
	case o.SentinelMaster == "":
		return invalid("sentinel master", "it is empty: want the name that the sentinels know it by")
	case o.Addr != "":
		return invalid("address", "it is set, and so are sentinels, which say where the master is")
	}
	return nil
}

func (o PoolOptions) checkCluster() error {
	if len(o.Cluster) == 0 {
		return nil
	}
	err := checkAddrs("cluster", o.Cluster)
	switch {
	case err != nil:
		return err
	case o.Addr != "" || len(o.Sentinels) > 0:
		return invalid("cluster", "it is set, and so is another address, or sentinels")
	case o.Database != 0:
		return invalid("database", fmt.Sprintf("%d: a cluster has the database 0 only", o.Database))
	}
	return nil
}

func checkAddrs(option string, addrs []string) error {
	for i, addr := range addrs {
		if !isHostPort(addr) { // it may be a piece of a URL, with a password
			return invalid(option, fmt.Sprintf("number %d is not host:port", i+1))
		}
	}
	return nil
}

func isHostPort(addr string) bool {
	host, port, err := net.SplitHostPort(addr)
	number, wrong := strconv.ParseUint(port, 10, 16)
	return err == nil && wrong == nil && number > 0 && host != "" && !strings.ContainsFunc(host, noneOfHosts)
}

func noneOfHosts(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune(`@/\`, r) }
