package view

import (
	"github.com/mix-basic/delayer/internal/inspect"
	"github.com/mix-basic/delayer/internal/store"
)

// Stats describes the whole Redis. nodes is nil if they cannot be read; noServers is why the servers cannot be read.
func Stats(counts inspect.Counts, nodes []inspect.Info, servers []store.ServerState, noServers error) (o Object) {
	var ready, dead int
	for _, t := range counts.Topics {
		ready, dead = inspect.Plus(ready, t.Ready), inspect.Plus(dead, t.Dead)
	}
	o.Put("time", counts.Time)
	o.Put("waiting", counts.Waiting)
	o.Put("ready", ready)
	o.Put("reserved", reserved(counts))
	o.Put("dead", dead)
	o.Put("topics", counts.Known)
	o.Put("topics_counted", len(counts.Topics))
	if counts.AtLeast() {
		o.Put("at_least", true)
	}
	o.Put("overdue", counts.Overdue)
	o = append(o, Broken(counts.BrokenPartitions())...)
	if noServers != nil {
		o.Put("servers", nil)
	} else {
		o.Put("servers", Servers(servers))
	}
	if len(nodes) == 0 {
		nodes = []inspect.Info{{Missing: "all"}}
	}
	o.Put("redis", redisInfo(nodes[0]))
	if nodes[0].Node != "" {
		list := make([]Object, len(nodes))
		for i, n := range nodes {
			list[i] = Of("node", n.Node, "redis", redisInfo(n))
		}
		o.Put("nodes", list)
	}
	return o
}

// Broken names the partitions that can't be read, if there are any.
func Broken(partitions []int) (o Object) {
	if len(partitions) > 0 {
		o.Put("broken_partitions", partitions)
	}
	return o
}

// reserved returns the number of reserved jobs of all topics.
func reserved(c inspect.Counts) int {
	if c.Pool < 0 || c.Waiting < 0 {
		return inspect.Unknown
	}
	return c.Pool - c.Waiting
}

// redisInfo is null if the Redis user lacks the permission. Redis's words are not for every client.
func redisInfo(info inspect.Info) any {
	if info.Missing != "" {
		return nil
	}
	var o Object
	o.Put("version", info.Version)
	o.Put("role", info.Role)
	o.Put("uptime", info.Uptime)
	o.Put("clients", info.Clients)
	o.Put("used_memory", info.UsedMemory)
	o.Put("max_memory", info.MaxMemory)
	o.Put("policy", info.Policy)
	o.Put("aof", info.AOF)
	o.Put("snapshot", info.Snapshot)
	o.Put("snapshot_at", info.SnapshotAt)
	o.Put("unsaved", info.Unsaved)
	return o
}

// Servers describes the servers. Why a server fails is not for every client.
func Servers(servers []store.ServerState) []Object {
	list := make([]Object, len(servers))
	for i, s := range servers {
		o := &list[i]
		o.Text("host", s.Host)
		o.Put("pid", s.PID)
		o.Text("version", s.Version)
		o.Put("started", s.Started)
		o.Put("silent", s.Age)
		o.Put("stale", s.Stale())
		o.Put("failing", s.Error != "")
		o.Put("moved", s.Moved)
		o.Put("returned", s.Returned)
		o.Put("dropped", s.Dropped)
	}
	return list
}

// Partitions describes each partition.
func Partitions(partitions []inspect.Partition) []Object {
	list := make([]Object, len(partitions))
	for i, p := range partitions {
		o := &list[i]
		o.Put("partition", p.Number)
		o.TextIfAny("node", p.Node)
		o.Put("waiting", p.Waiting)
		o.Put("ready", p.Ready)
		o.Put("reserved", p.Reserved)
		o.Put("dead", p.Dead)
		o.Put("overdue", p.Overdue)
		if p.Err != nil {
			o.Put("broken", true)
		}
		o.Put("mover", mover(p.Mover))
	}
	return list
}

// mover is null if no server reports or the Redis user lacks the permission.
func mover(s store.ServerState) any {
	if s.ID == "" {
		return nil
	}
	var o Object
	o.Text("host", s.Host)
	o.Put("pid", s.PID)
	return o
}
