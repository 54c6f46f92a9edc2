package main

import (
	"context"
	"fmt"
	"maps"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/duration"
	"github.com/mix-basic/delayer/internal/store"
)

// mostNodes is the maximum number of Redis servers of a bundle.
const mostNodes = 64

// node is a Redis server or a sentinel, and what it reports of itself.
type node struct {
	addr     string
	sentinel bool
	info     map[string]string
	slow     []store.SlowCommand
	infoErr  error
	slowErr  error
}

// nodeParts returns the INFO and the slow log of every server: masters, replicas and sentinels.
func (c *call) nodeParts(ctx context.Context) (parts []part) {
	o, err := poolOptions(c.redis)
	if err != nil {
		return []part{{name: "redis", err: err}}
	}
	first, err := c.firstNodes(ctx, o)
	if err != nil {
		parts = append(parts, part{name: "redis", err: err})
	}
	for _, n := range readNodes(ctx, o, first) {
		name := "redis/" + fileName.ReplaceAllString(n.addr, "_")
		info := part{name: name + ".info.txt", err: n.infoErr, known: []string{n.addr}}
		if n.infoErr == nil {
			info.text = func(m *mask) string { return infoText(m, n.info) }
		}
		parts = append(parts, info)
		if n.sentinel {
			continue
		}
		slow := part{name: name + ".slowlog.txt", err: n.slowErr}
		if n.slowErr == nil {
			slow.text = func(m *mask) string { return slowText(m, n.slow) }
		}
		parts = append(parts, slow)
	}
	return parts
}

var fileName = regexp.MustCompile(`[^0-9A-Za-z.-]+`)

// firstNodes returns the servers from which all others are found.
func (c *call) firstNodes(ctx context.Context, o client.PoolOptions) (list []node, err error) {
	switch {
	case o.Cluster != "":
		addrs, err := c.clusterNodes(ctx)
		for _, addr := range append(addrs, strings.Split(o.Cluster, ",")...) {
			list = append(list, node{addr: addr})
		}
		return list, err
	case o.Sentinels != "":
		for addr := range strings.SplitSeq(o.Sentinels, ",") {
			list = append(list, node{addr: addr, sentinel: true})
		}
		master, err := sentinelsOf(o).Master(ctx)
		if err == nil {
			list = append(list, node{addr: master})
		}
		return list, err
	}
	return []node{{addr: o.Addr}}, nil
}

// clusterNodes returns the masters and replicas of a cluster.
func (c *call) clusterNodes(ctx context.Context) (addrs []string, err error) {
	conn, err := c.connections.GetContext(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	ranges, err := redis.Values(redis.DoContext(conn, ctx, "CLUSTER", "SLOTS"))
	for _, r := range ranges {
		parts, _ := redis.Values(r, nil)
		for _, item := range parts[min(2, len(parts)):] {
			of, _ := redis.Values(item, nil)
			var host string
			var port int
			if _, err := redis.Scan(of, &host, &port); err == nil && host != "" {
				addrs = append(addrs, net.JoinHostPort(host, strconv.Itoa(port)))
			}
		}
	}
	return addrs, err
}

// readNodes reads the servers, and those that they name as their master and replicas. A server that is known by several
// addresses is returned once.
func readNodes(ctx context.Context, o client.PoolOptions, next []node) (all []node) {
	asked, runs := map[string]bool{}, map[string]bool{}
	for len(next) > 0 {
		next = slices.DeleteFunc(next, func(n node) bool {
			again := asked[n.addr] || len(asked) >= mostNodes
			asked[n.addr] = asked[n.addr] || !again
			return again
		})
		var reading sync.WaitGroup
		for i := range next {
			reading.Go(func() { next[i].read(ctx, o) })
		}
		reading.Wait()
		var more []node
		for _, n := range next {
			if run := n.info["run_id"]; run == "" || !runs[run] {
				runs[run] = true
				all, more = append(all, n), append(more, n.others()...)
			}
		}
		next = more
	}
	return all
}

// read reads one server.
func (n *node) read(ctx context.Context, o client.PoolOptions) {
	if n.sentinel {
		o.Username, o.Password, o.Database = o.SentinelUsername, o.SentinelPassword, 0
	}
	o.Addr, o.Sentinels, o.SentinelMaster, o.SentinelUsername, o.SentinelPassword, o.Cluster = n.addr, "", "", "", "", ""
	pool, err := client.NewPool(o)
	if err != nil {
		n.infoErr = err
		return
	}
	defer pool.Close()
	s := store.New(pool, store.DefaultPrefix) // whatever the layout is
	n.info, n.infoErr = s.Info(ctx)
	if !n.sentinel {
		n.slow, n.slowErr = s.SlowCommands(ctx)
	}
}

var replicaField = regexp.MustCompile(`^slave\d+$`)

// others returns the master or the replicas that a server names.
func (n node) others() (list []node) {
	if host := n.info["master_host"]; host != "" && !n.sentinel {
		list = append(list, node{addr: net.JoinHostPort(host, n.info["master_port"])})
	}
	for field, value := range n.info {
		if !replicaField.MatchString(field) {
			continue
		}
		of := map[string]string{} // ip=10.0.0.2,port=6379,state=online,…
		for pair := range strings.SplitSeq(value, ",") {
			name, text, _ := strings.Cut(pair, "=")
			of[name] = text
		}
		list = append(list, node{addr: net.JoinHostPort(of["ip"], of["port"])})
	}
	return list
}

// redisErrors are the kinds of errors that Redis itself counts. Scripts of other programs may fail with any text.
var redisErrors = []string{"ASK", "BUSY", "BUSYGROUP", "BUSYKEY", "CLUSTERDOWN", "CROSSSLOT", "ERR", "EXECABORT", "LOADING", "MASTERDOWN", "MISCONF", "MOVED",
	"NOAUTH", "NOGOODSLAVE", "NOPERM", "NOREPLICAS", "NOSCRIPT", "OOM", "READONLY", "TRYAGAIN", "UNKILLABLE", "WRONGPASS", "WRONGTYPE"}

func infoText(m *mask, info map[string]string) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(info)) {
		if kind, is := strings.CutPrefix(name, "errorstat_"); is && !m.bodies && !slices.Contains(redisErrors, kind) {
			continue
		}
		fmt.Fprintf(&b, "%s:%s\n", name, m.withoutSecrets(info[name]))
	}
	return b.String()
}

// slowText lists slow commands. Their arguments are keys, IDs and bodies.
func slowText(m *mask, list []store.SlowCommand) string {
	text := fmt.Sprintf("entries: %d\n", len(list))
	for _, s := range list {
		text += fmt.Sprintf("%s %v %s", s.At.Format(time.RFC3339), duration.Format(s.Took), strings.ToUpper(s.Arguments[0]))
		if m.bodies {
			text += m.withoutSecrets(fmt.Sprintf(" %q", s.Arguments[1:]))
		}
		text += "\n"
	}
	return text
}
