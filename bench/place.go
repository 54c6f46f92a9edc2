package main

import (
	"errors"
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
	name := fmt.Sprintf("%d partitions", partitions)
	if partitions == 1 {
		name = "1 partition"
	}
	return place{name, client.PoolOptions{Addr: r.Redis.addr, Partitions: partitions}, []*Redis{r.Redis}}
}

// startCluster starts a cluster of that many masters with equal shares of the slots.
func startCluster(masters, partitions int) (p place, err error) {
	p.name = fmt.Sprintf("cluster of %d", masters)
	p.options.Partitions = partitions
	defer func() {
		if err != nil {
			p.stop()
		}
	}()
	for i := range masters {
		bus, err := freeAddr()
		if err != nil {
			return p, err
		}
		_, port, _ := net.SplitHostPort(bus)
		node, err := startRedis("--cluster-enabled", "yes", "--cluster-port", port)
		if err != nil {
			return p, err
		}
		p.nodes = append(p.nodes, node)
		if err := p.join(i, masters, port); err != nil {
			return p, err
		}
	}
	p.options.Cluster = p.nodes[0].addr
	return p, p.await()
}

// join assigns slots to the last node, which has that number, and introduces it to the first one.
func (p place) join(number, masters int, bus string) error {
	const slots = 16384
	node := p.nodes[number]
	host, port, _ := net.SplitHostPort(node.addr)
	_, epoch := node.do("CLUSTER", "SET-CONFIG-EPOCH", number+1)
	_, owns := node.do("CLUSTER", "ADDSLOTSRANGE", slots*number/masters, slots*(number+1)/masters-1)
	if number == 0 {
		return errors.Join(epoch, owns)
	}
	_, met := p.nodes[0].do("CLUSTER", "MEET", host, port, bus)
	return errors.Join(epoch, owns, met)
}

// await waits until all nodes agree on the slots.
func (p place) await() error {
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		well := 0
		for _, node := range p.nodes {
			text, err := redis.String(node.do("CLUSTER", "INFO"))
			if err != nil {
				return err
			}
			if strings.Contains(text, "cluster_state:ok") && strings.Contains(text, fmt.Sprintf("cluster_size:%d\r\n", len(p.nodes))) {
				well++
			}
		}
		if well == len(p.nodes) {
			return nil
		}
	}
	return fmt.Errorf("the %s is not well", p.name)
}

func (p place) stop() {
	for _, node := range p.nodes {
		node.stop()
	}
}

func (p place) clear() error {
	for _, node := range p.nodes {
		if err := node.clear(); err != nil {
			return err
		}
	}
	return nil
}

// cpu returns each node's CPU time.
func (p place) cpu() ([]time.Duration, error) {
	used := make([]time.Duration, len(p.nodes))
	for i, node := range p.nodes {
		var err error
		if used[i], err = node.cpu(); err != nil {
			return nil, err
		}
	}
	return used, nil
}

// makeDue makes all waiting jobs due now.
func (p place) makeDue() error {
	for _, node := range p.nodes {
		pools, err := redis.Strings(node.do("KEYS", "delayer:*job_pool"))
		if err != nil {
			return err
		}
		for _, pool := range pools {
			if _, err := node.do("ZUNIONSTORE", pool, 1, pool, "WEIGHTS", 0); err != nil {
				return err
			}
		}
	}
	return nil
}

// sent counts the commands that clients send to all nodes while f runs.
func (p place) sent(f func()) (int, error) {
	if len(p.nodes) == 0 {
		f()
		return 0, nil
	}
	others := place{nodes: p.nodes[1:]}
	var rest int
	var wrong error
	n, err := p.nodes[0].sent(func() { rest, wrong = others.sent(f) })
	return n + rest, errors.Join(err, wrong)
}

// connections counts the clients' connections, except ours for measuring.
func (p place) connections() (int, error) {
	sum := 0
	for _, node := range p.nodes {
		n, err := node.info("connected_clients")
		if err != nil {
			return 0, err
		}
		sum += int(n) - node.Pool.ActiveCount()
	}
	return sum, nil
}
