package main

import (
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/client"
)

// place is where jobs are stored: on one Redis or on the masters of a cluster, in that many partitions.
type place struct {
	name    string
	options client.PoolOptions
	nodes   []*Redis
}

// onOne is the run's Redis with that many partitions.
func (r *Run) onOne(partitions int) place {
	return place{plural(partitions, "partition"), client.PoolOptions{Addr: r.Redis.addr, Partitions: partitions}, []*Redis{r.Redis}}
}

// startCluster starts a cluster of that many masters with equal shares of the slots.
func startCluster(masters, partitions int) place {
	const slots = 16384
	p := place{name: fmt.Sprintf("cluster of %d", masters), options: client.PoolOptions{Partitions: partitions}}
	for i := range masters {
		_, bus, _ := net.SplitHostPort(freeAddr())
		node := startRedis("--cluster-enabled", "yes", "--cluster-port", bus)
		p.nodes = append(p.nodes, node)
		node.do("CLUSTER", "SET-CONFIG-EPOCH", i+1)
		node.do("CLUSTER", "ADDSLOTSRANGE", slots*i/masters, slots*(i+1)/masters-1)
		if i > 0 {
			host, port, _ := net.SplitHostPort(node.addr)
			p.nodes[0].do("CLUSTER", "MEET", host, port, bus)
		}
	}
	p.options.Cluster = []string{p.nodes[0].addr}
	p.await()
	return p
}

// await waits until all nodes agree on the slots.
func (p place) await() {
	await(30*time.Second, 20*time.Millisecond, "nodes of a cluster are not well", func() int {
		left := len(p.nodes)
		for _, node := range p.nodes {
			text := must(redis.String(node.do("CLUSTER", "INFO"), nil))
			if strings.Contains(text, "cluster_state:ok") && strings.Contains(text, fmt.Sprintf("cluster_size:%d\r\n", len(p.nodes))) {
				left--
			}
		}
		return left
	})
}

func (p place) stop() {
	for _, node := range p.nodes {
		node.stop()
	}
}

func (p place) clear() {
	for _, node := range p.nodes {
		node.clear()
	}
}

// cpu returns each node's CPU time.
func (p place) cpu() (used []time.Duration) {
	for _, node := range p.nodes {
		used = append(used, node.cpu())
	}
	return used
}

// makeDue makes all waiting jobs due now.
func (p place) makeDue() {
	for _, node := range p.nodes {
		for _, pool := range must(redis.Strings(node.do("KEYS", "delayer:*job_pool"), nil)) {
			node.do("ZUNIONSTORE", pool, 1, pool, "WEIGHTS", 0)
		}
	}
}

// sent counts the commands that clients send to all nodes while f runs.
func (p place) sent(f func()) int {
	if len(p.nodes) == 0 {
		f()
		return 0
	}
	rest := 0
	return p.nodes[0].sent(func() { rest = place{nodes: p.nodes[1:]}.sent(f) }) + rest
}

func (p place) connections() (sum float64) {
	for _, node := range p.nodes {
		sum += node.connections()
	}
	return sum
}
