package doctor

import (
	"context"
	"errors"
	"strings"

	"github.com/mix-basic/delayer/internal/health"
	"github.com/mix-basic/delayer/internal/store"
	"github.com/mix-basic/delayer/server"
)

// Redis is the name of the check that fails if Redis does not answer, or refuses the daemon, whose start would fail.
const Redis = "redis"

// checkRedis finds that Redis refuses the daemon.
func checkRedis(_ context.Context, d *Doctor) ([]Finding, error) {
	switch err := d.start; {
	case errors.Is(err, server.ErrRefused):
		return []Finding{d.unreached(err)}, nil
	case errors.Is(err, server.ErrNoChannel), errors.Is(err, server.ErrNoFeature), errors.Is(err, server.ErrEvicts):
		return nil, nil
	default:
		return nil, err
	}
}

// unreached is the finding that Redis does not answer, or refuses the daemon.
func (d *Doctor) unreached(err error) Finding {
	f := health.NotRead("", err)
	f.Kind = Redis
	switch {
	case store.LacksPermission(err):
		f.Fix = d.grant()
	case errors.Is(err, server.ErrRefused):
		f.Fix = "correct what it names in [redis] of delayer.conf: username, password, database, tls, partitions"
	}
	return f
}

// checkStart returns a check of what keeps the daemon from doing all, though it would start.
func checkStart(kind error) func(context.Context, *Doctor) ([]Finding, error) {
	return func(_ context.Context, d *Doctor) ([]Finding, error) {
		if !errors.Is(d.start, kind) {
			return nil, nil
		}
		return one(partOf(d.start, kind).Error(), d.grant()), nil
	}
}

// partOf returns the joined error that matches kind.
func partOf(err, kind error) error {
	if joined, is := err.(interface{ Unwrap() []error }); is {
		for _, part := range joined.Unwrap() {
			if part != kind && errors.Is(part, kind) {
				return partOf(part, kind)
			}
		}
	}
	return err
}

// The commands of the daemon in docs/operating.md, and what it needs besides in a Cluster.
const (
	daemonCommands  = "+evalsha +eval +time +exists +zcount +zrange +hget +hmget +zmscore +zadd +zrem +llen +lpos +lrange +lpush +lmove +rpop +rename +hincrby +zrangebyscore +type +del +hset +hdel +hlen +hrandfield +hscan +hstrlen +get +pexpire +pttl +persist +zscore +zpopmin +publish +subscribe +ping +select"
	clusterCommands = "+cluster|slots +ssubscribe +sunsubscribe +spublish +pubsub|shardnumsub"
)

// grant is the ACL line that gives the Redis user all that the daemon needs.
func (d *Doctor) grant() string {
	words := []string{"redis-cli, then ACL SETUSER", d.User, "~" + d.fleet.Prefix + "*", "&" + d.fleet.Prefix + "*", daemonCommands}
	if d.fleet.Stores[0].InCluster() {
		words = append(words, clusterCommands, "(on every node)")
	}
	return strings.Join(words, " ")
}
