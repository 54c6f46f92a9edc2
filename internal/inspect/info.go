package inspect

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/mix-basic/delayer/internal/fleet"
	"github.com/mix-basic/delayer/internal/store"
)

// Info is what a Redis says about itself. A missing text is empty, a missing number Unknown.
type Info struct {
	Node       string // its address in a cluster, else empty
	Version    string
	Role       string // master or slave
	Uptime     time.Duration
	Clients    int    // connected
	UsedMemory int64  // bytes
	MaxMemory  int64  // bytes; 0: no limit
	Policy     string // maxmemory_policy: all except noeviction lose jobs
	// AOF says whether the append-only file is off, ok, or its last write or rewrite has failed.
	AOF string
	// Snapshot says whether the last snapshot was ok or has failed; SnapshotAt is when it was made, or
	// else when Redis was started; Unsaved is the number of changes since.
	Snapshot   string
	SnapshotAt time.Time
	Unsaved    int64
	// Missing says why nothing can be read: in Redis's words that this user may not INFO, or that the node is away.
	Missing string
}

// Info reads it from each node with partitions, several only in a cluster. A node that does not respond sets Missing,
// unless none answers.
func (o *Inspector) Info(ctx context.Context) ([]Info, error) {
	var nodes []fleet.Server
	err := o.patiently(ctx, func(ctx context.Context) (err error) {
		nodes, err = o.fleet.Servers(ctx)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read INFO: %w", err)
	}
	all, failed := make([]Info, len(nodes)), make(failures, len(nodes))
	var asking sync.WaitGroup
	for i, node := range nodes {
		asking.Go(func() {
			var says map[string]string
			err := o.patiently(ctx, func(ctx context.Context) (err error) {
				says, err = node.Store.Info(ctx)
				return err
			})
			all[i] = infoOf(says)
			if all[i].Node = node.Addr; err != nil {
				all[i].Missing = err.Error()
			}
			if !store.Refused(err) {
				failed[i] = err
			}
		})
	}
	asking.Wait()
	if !slices.Contains(failed, nil) {
		return nil, fmt.Errorf("read INFO: %w", failed[0])
	}
	return all, nil
}

func infoOf(says map[string]string) Info {
	number := func(field string) int64 {
		n, failed := strconv.ParseInt(says[field], 10, 64)
		if failed != nil {
			return Unknown
		}
		return n
	}
	info := Info{
		Version:    says["redis_version"],
		Role:       says["role"],
		Uptime:     Unknown,
		Clients:    int(number("connected_clients")),
		UsedMemory: number("used_memory"),
		MaxMemory:  number("maxmemory"),
		Policy:     says["maxmemory_policy"],
		Snapshot:   status(says["rdb_last_bgsave_status"]),
		Unsaved:    number("rdb_changes_since_last_save"),
	}
	switch says["aof_enabled"] {
	case "0":
		info.AOF = "off"
	case "1":
		info.AOF = status(says["aof_last_write_status"], says["aof_last_bgrewrite_status"])
	}
	if at := number("rdb_last_save_time"); at >= 0 {
		info.SnapshotAt = time.Unix(at, 0)
	}
	if seconds := number("uptime_in_seconds"); seconds >= 0 {
		info.Uptime = time.Duration(seconds) * time.Second
	}
	return info
}

// status is ok, or failed if any of Redis's is not ok; empty if Redis says none.
func status(says ...string) string {
	switch {
	case slices.Equal(says, make([]string, len(says))):
		return ""
	case slices.ContainsFunc(says, func(s string) bool { return s != "ok" }):
		return "failed"
	}
	return "ok"
}
