package conformance

import (
	"cmp"
	"context"
	"net"
	"strconv"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/client"
)

// nodes returns the servers that hold keys: the masters of a cluster, or the only server.
func (r *run) nodes(tb testing.TB) (nodes []client.PoolOptions) {
	tb.Helper()
	if r.redis.Cluster == "" {
		return []client.PoolOptions{r.redis}
	}
	conn, err := r.pool.GetContext(tb.Context())
	check(tb, err)
	defer conn.Close()
	ranges, err := redis.Values(conn.Do("CLUSTER", "SLOTS"))
	check(tb, err)
	seen := map[string]bool{}
	for _, each := range ranges {
		master, err := redis.Values(each.([]any)[2], nil)
		check(tb, err)
		var host string
		var port int
		_, err = redis.Scan(master, &host, &port)
		check(tb, err)
		if addr := net.JoinHostPort(host, strconv.Itoa(port)); !seen[addr] {
			seen[addr] = true
			o := r.redis
			o.Cluster, o.Addr = "", addr
			nodes = append(nodes, o)
		}
	}
	return nodes
}

// on calls do with a connection to a node.
func on[T any](ctx context.Context, node client.PoolOptions, do func(redis.Conn) (T, error)) (result T, err error) {
	node.Partitions, node.PreviousPartitions = 0, 0
	pool := client.Connect(node)
	defer pool.Close()
	conn, err := pool.GetContext(ctx)
	if err != nil {
		return result, err
	}
	defer conn.Close()
	return do(conn)
}

// do runs a command on the node of its key.
func (r *run) do(tb testing.TB, command string, args ...any) {
	tb.Helper()
	for _, node := range r.nodes(tb) {
		_, err := on(tb.Context(), node, func(conn redis.Conn) (any, error) { return conn.Do(command, args...) })
		if err == nil || !strings.HasPrefix(err.Error(), "MOVED") {
			check(tb, err)
			return
		}
	}
	tb.Fatalf("no node has the key of %s %q", command, args)
}

// forget deletes all keys of the run.
func (r *run) forget(tb testing.TB) {
	tb.Helper()
	for _, node := range r.nodes(tb) {
		_, err := on(tb.Context(), node, func(conn redis.Conn) (any, error) {
			return nil, eachKey(conn, r.prefix, func(key string) error {
				_, err := conn.Do("DEL", key)
				return err
			})
		})
		if err != nil {
			tb.Errorf("keys that begin with %s may be left: %v", r.prefix, err)
		}
	}
}

// eachKey calls do for every key of a node with the prefix, possibly more than once.
func eachKey(conn redis.Conn, prefix string, do func(key string) error) error {
	for cursor := "0"; ; {
		reply, err := redis.Values(conn.Do("SCAN", cursor, "MATCH", prefix+"*", "COUNT", 1000))
		if err != nil {
			return err
		}
		var keys []string
		if _, err := redis.Scan(reply, &cursor, &keys); err != nil {
			return err
		}
		for _, key := range keys {
			if strings.HasPrefix(key, prefix) { // MATCH differs between servers
				err = cmp.Or(err, do(key))
			}
		}
		if err != nil || cursor == "0" {
			return err
		}
	}
}

// all returns the keys of all nodes.
func (r *run) all(tb testing.TB) map[string]bool {
	tb.Helper()
	all := map[string]bool{}
	for _, node := range r.nodes(tb) {
		_, err := on(tb.Context(), node, func(conn redis.Conn) (any, error) {
			return nil, eachKey(conn, "", func(key string) error { all[key] = true; return nil })
		})
		check(tb, err)
	}
	return all
}
