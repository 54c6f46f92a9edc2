package client

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/internal/redispool"
)

// PoolOptions says how to reach Redis. The zero value is a Redis without a
// password on 127.0.0.1:6379. A time above 0 and below a millisecond lacks its unit, and is ErrInvalid
// of each call.
type PoolOptions struct {
	// Addr is host:port, or the path of a unix socket (it starts with "/",
	// "./", "../" or "@"). Empty means 127.0.0.1:6379.
	Addr string
	// Username is the ACL user. Empty means Redis's default user. It takes
	// effect together with Password only.
	Username string
	// Password is empty when Redis asks for none.
	Password string
	// Database is the number given to SELECT.
	Database int
	// TLS turns encryption on. An empty ServerName becomes the host in Addr.
	TLS *tls.Config

	// ConnectTimeout bounds a dial; ReadTimeout and WriteTimeout bound how long
	// nothing may come, or go, while a reply or a command is under way: what is
	// large may take longer. 0 means 3 s. A call on a Redis that hangs therefore
	// fails instead of hanging too.
	ConnectTimeout, ReadTimeout, WriteTimeout time.Duration

	// MaxActive is how many connections may be open at a time; a further call
	// waits for one of them. 0 means 32, a negative number no limit.
	MaxActive int
	// MaxIdle is how many unused connections are kept. A negative number keeps none. 0 means
	// MaxActive, or 32 where that has no limit, but only 4 of those that nobody has
	// needed for 10 s: what was opened for a crowd is closed soon after it.
	MaxIdle int
	// IdleTimeout closes a connection unused for so long. 0 means 5 minutes, a
	// negative duration never.
	IdleTimeout time.Duration
	// MaxConnLifetime closes a connection that old. 0 means never.
	MaxConnLifetime time.Duration
}

const (
	defaultAddr        = "127.0.0.1:6379"
	defaultTimeout     = 3 * time.Second
	defaultMaxActive   = 32
	defaultIdleTimeout = 5 * time.Minute
	thinEvery          = 10 * time.Second
)

// NewPool makes a redigo pool with a timeout on everything, that waits for a
// free connection instead of failing and finds out about dead ones. Nothing is
// dialled until the pool is used.
func NewPool(o PoolOptions) *redis.Pool {
	dialer := redispool.Dialer{
		Locate:         redispool.Fixed(cmp.Or(o.Addr, defaultAddr)),
		Username:       o.Username,
		Password:       o.Password,
		Database:       o.Database,
		TLS:            o.TLS,
		ConnectTimeout: cmp.Or(o.ConnectTimeout, defaultTimeout),
		ReadTimeout:    cmp.Or(o.ReadTimeout, defaultTimeout),
		WriteTimeout:   cmp.Or(o.WriteTimeout, defaultTimeout),
	}
	maxActive := max(cmp.Or(o.MaxActive, defaultMaxActive), 0)
	pool := &redis.Pool{
		DialContext:         dialer.Dial,
		TestOnBorrowContext: redispool.CheckRested,
		MaxActive:           maxActive,
		MaxIdle:             max(cmp.Or(o.MaxIdle, maxActive, defaultMaxActive), 0),
		IdleTimeout:         max(cmp.Or(o.IdleTimeout, defaultIdleTimeout), 0),
		MaxConnLifetime:     o.MaxConnLifetime,
		Wait:                true,
	}
	if wrong := o.checkUnits(); wrong != nil {
		pool.DialContext = func(context.Context) (redis.Conn, error) { return nil, wrong }
	}
	if o.MaxIdle == 0 {
		redispool.Thin(pool, thinEvery)
	}
	return pool
}

func (o PoolOptions) checkUnits() error {
	return cmp.Or(checkUnit("connect timeout", o.ConnectTimeout), checkUnit("read timeout", o.ReadTimeout), checkUnit("write timeout", o.WriteTimeout),
		checkUnit("idle timeout", o.IdleTimeout), checkUnit("max connection lifetime", o.MaxConnLifetime))
}

// ParseURL reads a Redis URL:
//
//	redis://[user:password@]host[:port][/database]
//	rediss://…                                       the same over TLS
//	unix://[user:password@]/path/of/redis.sock[?db=database]
//
// A user part without a colon is a password, as in redis-cli. Special
// characters are escaped as in any URL ("@" is %40). No error quotes the URL,
// for there may be a password in it.
func ParseURL(rawURL string) (PoolOptions, error) {
	o, err := parseURL(rawURL)
	if err != nil {
		return PoolOptions{}, fmt.Errorf("delayer: %w", invalid("redis URL", err.Error()))
	}
	return o, nil
}

func parseURL(rawURL string) (PoolOptions, error) {
	if !strings.Contains(rawURL, "://") {
		return PoolOptions{}, errors.New("want one that begins with redis://, rediss:// or unix://")
	}
	u, err := url.Parse(rawURL)
	if err != nil {
		// The cause quotes what it stumbled on.
		return PoolOptions{}, errors.New("it is malformed: want redis://[user:password@]host[:port][/database], with %40 for @ in a password and the like")
	}
	o := PoolOptions{}
	if u.User != nil {
		password, both := u.User.Password()
		o.Username, o.Password = u.User.Username(), password
		if !both {
			o.Username, o.Password = "", u.User.Username()
		}
	}
	database := strings.TrimPrefix(u.Path, "/")
	query, err := url.ParseQuery(u.RawQuery)
	switch u.Scheme {
	case "rediss":
		o.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
		fallthrough
	case "redis":
		o.Addr = net.JoinHostPort(cmp.Or(u.Hostname(), "127.0.0.1"), cmp.Or(u.Port(), "6379"))
	case "unix":
		if u.Host != "" || u.Path == "" {
			return PoolOptions{}, errors.New("want unix:///path/of/redis.sock")
		}
		o.Addr, database = path.Clean(u.Path), query.Get("db")
		query.Del("db")
	default:
		return PoolOptions{}, errors.New("want one that begins with redis://, rediss:// or unix://")
	}
	if err != nil || len(query) > 0 || u.Fragment != "" || u.Opaque != "" {
		return PoolOptions{}, errors.New("something in it has no meaning here: want redis://[user:password@]host[:port][/database], with %23 for # and %3F for ? in a password")
	}
	if database != "" {
		if o.Database, err = strconv.Atoi(database); err != nil || o.Database < 0 {
			return PoolOptions{}, errors.New("the database is not a number from 0")
		}
	}
	return o, nil
}
