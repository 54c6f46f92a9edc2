package view

import (
	"github.com/mix-basic/delayer/internal/inspect"
	"github.com/mix-basic/delayer/internal/store"
)

// Stats describes the whole Redis. nodes is nil if they cannot be read; noServers is why the servers cannot be read.
func Stats(counts inspect.Counts, nodes []inspect.Info, servers []store.ServerState, noServers error) Object {
	var ready, dead int
	for _, t := range counts.Topics {
		ready, dead = inspect.Plus(ready, t.Ready), inspect.Plus(dead, t.Dead)
	}
	o := Of("time", counts.Time, "waiting", counts.Waiting, "ready", ready, "reserved", reserved(counts), "dead", dead,
		"topics", counts.Known, "topics_counted", len(counts.Topics))
	o.PutIfAny("at_least", counts.AtLeast())
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
	return Of("version", info.Version, "role", info.Role, "uptime", info.Uptime, "clients", info.Clients,
		"used_memory", info.UsedMemory, "max_memory", info.MaxMemory, "policy", info.Policy,
		"aof", info.AOF, "snapshot", info.Snapshot, "snapshot_at", info.SnapshotAt, "unsaved", info.Unsaved)
}

// Servers describes the servers. Why a server fails is not for every client.
func Servers(servers []store.ServerState) []Object {
	list := make([]Object, len(servers))
	for i, s := range servers {
		list[i] = Of("host", s.Host, "pid", s.PID, "version", s.Version, "started", s.Started, "silent", s.Age, "stale", s.Stale(),
			"failing", s.Error != "", "moved", s.Moved, "returned", s.Returned, "dropped", s.Dropped)
	}
	return list
}

// Partitions describes each partition.
func Partitions(partitions []inspect.Partition) []Object {
	list := make([]Object, len(partitions))
	for i, p := range partitions {
		o := &list[i]
		o.Put("partition", p.Number)
		o.PutIfAny("node", p.Node)
		o.Put("waiting", p.Waiting, "ready", p.Ready, "reserved", p.Reserved, "dead", p.Dead, "overdue", p.Overdue)
		o.PutIfAny("broken", p.Err != nil)
		o.Put("mover", mover(p.Mover))
	}
	return list
}

// mover is null if no server reports or the Redis user lacks the permission.
func mover(s store.ServerState) any {
	if s.ID == "" {
		return nil
	}
	return Of("host", s.Host, "pid", s.PID)
}
