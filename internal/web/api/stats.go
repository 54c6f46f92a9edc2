package api

import (
	_ "embed"
	"net/http"

	"github.com/mix-basic/delayer/internal/inspect"
	"github.com/mix-basic/delayer/internal/store"
)

func (a *api) stats(c *call) (response, error) {
	counts, err := a.inspector.Counts(c.context())
	if err != nil {
		return response{}, err
	}
	nodes, err := a.inspector.Info(c.context())
	if err != nil {
		return response{}, err
	}
	servers, err := a.inspector.Servers(c.context())
	if err != nil && !store.Refused(err) && counts.Broken() == nil {
		return response{}, err
	}
	var ready, dead int
	for _, t := range counts.Topics {
		ready, dead = inspect.Plus(ready, t.Ready), inspect.Plus(dead, t.Dead)
	}
	var o object
	o.put("time", counts.Time)
	o.put("waiting", counts.Waiting)
	o.put("ready", ready)
	o.put("reserved", reserved(counts))
	o.put("dead", dead)
	o.put("topics", counts.Known)
	o.put("topics_counted", len(counts.Topics))
	if counts.AtLeast() {
		o.put("at_least", true)
	}
	o.put("overdue", counts.Overdue)
	if broken := brokenOf(counts); len(broken) > 0 {
		o.put("broken_partitions", broken)
	}
	o.put("servers", serverList(servers, err))
	o.put("redis", redisInfo(nodes[0]))
	if nodes[0].Node != "" {
		o.put("nodes", nodeList(nodes))
	}
	return ok(o), nil
}

// brokenOf returns the numbers of unreadable partitions. The reasons are not for every client.
func brokenOf(counts inspect.Counts) (broken []int) {
	for _, p := range counts.Partitions {
		if p.Err != nil {
			broken = append(broken, p.Number)
		}
	}
	return broken
}

// serverList is null if the Redis user lacks the permission. Why a server fails is not for every client.
func serverList(servers []store.ServerState, refused error) any {
	if refused != nil {
		return nil
	}
	list := make([]object, len(servers))
	for i, s := range servers {
		o := &list[i]
		o.text("host", s.Host)
		o.put("pid", s.PID)
		o.text("version", s.Version)
		o.put("started", s.Started)
		o.put("silent", s.Age)
		o.put("stale", s.Stale())
		o.put("failing", s.Error != "")
		o.put("moved", s.Moved)
		o.put("returned", s.Returned)
		o.put("dropped", s.Dropped)
	}
	return list
}

// reserved returns the number of reserved jobs of all topics.
func reserved(c inspect.Counts) int {
	if c.Pool < 0 || c.Waiting < 0 {
		return inspect.Unknown
	}
	return c.Pool - c.Waiting
}

// nodeList describes the nodes of a cluster.
func nodeList(nodes []inspect.Info) []object {
	list := make([]object, len(nodes))
	for i, n := range nodes {
		list[i].put("node", n.Node)
		list[i].put("redis", redisInfo(n))
	}
	return list
}

// redisInfo is null if the Redis user lacks the permission. Redis's words are not for every client.
func redisInfo(info inspect.Info) any {
	if info.Missing != "" {
		return nil
	}
	var o object
	o.put("version", info.Version)
	o.put("role", info.Role)
	o.put("uptime", info.Uptime)
	o.put("clients", info.Clients)
	o.put("used_memory", info.UsedMemory)
	o.put("max_memory", info.MaxMemory)
	o.put("policy", info.Policy)
	o.put("aof", info.AOF)
	o.put("snapshot", info.Snapshot)
	o.put("snapshot_at", info.SnapshotAt)
	o.put("unsaved", info.Unsaved)
	return o
}

//go:embed openapi.yaml
var openapi []byte

func (a *api) description(*call) (response, error) {
	return response{status: http.StatusOK, content: "application/yaml", body: openapi}, nil
}
