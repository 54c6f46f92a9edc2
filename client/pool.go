package client

import (
	"cmp"
	"crypto/tls"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/internal/fleet"
	"github.com/mix-basic/delayer/internal/redisconn"
)

// PoolOptions say how to reach Redis. The zero value is a Redis without a password on 127.0.0.1:6379.
//
// In the limits and durations at the end, 0 means the default and a negative value no limit. A duration above 0 and below
// a millisecond is ErrInvalid: it was probably given without a unit.
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
	// Partitions is the number of partitions that the jobs are divided into, 1 to 1,024. The default is 1, with the
	// original's keys. With several, the keys of each begin with the prefix and its number in braces: "delayer:{3}:". A
	// job belongs to partition CRC16(tag) mod Partitions. The tag is the text between the first { of its ID and the next
	// }, or else the whole ID: jobs whose IDs have the same tag are kept together. A topic is served from all
	// partitions, and its order holds within each; priorities and weights of a worker's topics have less effect,
	// because one call fetches several topics of one partition. The number is chosen once, and must be the same in all
	// programs: calls of others return an error. A server's errors name the partition, and its log records about one have
	// the attribute "partition", the number.
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

// Redis is where jobs are kept, and in how many partitions. Make one with Connect or UsePool, for New and server.New:
// Clients and Servers may share it.
type Redis fleet.Redis

// Close closes the connections that Connect made; a pool passed to UsePool stays open. Call it after the Clients and
// Servers have ended.
func (r *Redis) Close() error { return (*fleet.Redis)(r).Close() }

// Connect returns the Redis that the options name. Its connections have timeouts for everything, calls wait for a free
// connection, and dead connections are noticed. Nothing is dialled before the first use. A wrong option is an error
// (ErrInvalid).
func Connect(o PoolOptions) (*Redis, error) {
	conns, err := o.connections()
	if err != nil {
		return nil, failed("connect", "", err)
	}
	return (*Redis)(fleet.NewRedis(conns, o.Partitions, conns.Close)), nil
}

// UsePool returns the Redis that a pool of the caller's leads to, with the jobs in that many partitions; see
// PoolOptions.Partitions. The pool remains the caller's. It should have Wait set, and read and write timeouts. If it is
// nil or the number wrong, New returns an error (ErrInvalid).
func UsePool(pool *redis.Pool, partitions int) *Redis {
	if pool == nil {
		return nil
	}
	return (*Redis)(fleet.NewRedis(pool, partitions, nil))
}

func (o PoolOptions) connections() (redisconn.Redis, error) {
	dialer := redisconn.Dialer{
		Username: o.Username, Password: o.Password, Database: o.Database,
		TLS:            o.TLS,
		ConnectTimeout: limit(o.ConnectTimeout, defaultTimeout),
		ReadTimeout:    limit(o.ReadTimeout, defaultTimeout),
		WriteTimeout:   limit(o.WriteTimeout, defaultTimeout),
	}
	if err := o.check(); err != nil {
		return nil, err
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

func (o PoolOptions) check() error {
	if err := fleet.CheckPartitions(o.Partitions); err != nil {
		return fmt.Errorf("%w %w", ErrInvalid, err)
	}
	switch {
	case o.Addr != "" && redisconn.Network(o.Addr) == "tcp" && !isHostPort(o.Addr): // it may be a URL with a password
		return invalid("address", "it is neither host:port nor the path of a unix socket")
	case o.Database < 0:
		return invalid("database", fmt.Sprintf("%d is not a number from 0", o.Database))
	}
	return cmp.Or(o.checkSentinels(), o.checkCluster(),
		checkUnit("connect timeout", o.ConnectTimeout), checkUnit("read timeout", o.ReadTimeout), checkUnit("write timeout", o.WriteTimeout),
		checkUnit("idle timeout", o.IdleTimeout), checkUnit("max connection lifetime", o.MaxConnLifetime))
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
