package doctor

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mix-basic/delayer/internal/duration"
	"github.com/mix-basic/delayer/internal/health"
	"github.com/mix-basic/delayer/internal/inspect"
	"github.com/mix-basic/delayer/internal/store"
	"github.com/mix-basic/delayer/server"
)

// checks is the table of all checks of Redis.
var checks = []Check{
	{Redis, "", checkRedis},
	{"unreadable", "", judged(func(v *health.View) ([]Finding, error) { return health.Unreadable(v), nil })},
	{"channels", "", checkStart(server.ErrNoChannel)},
	{"features", "", checkStart(server.ErrNoFeature)},
	{"eviction_policy", "+info", eachNode(checkPolicy)},
	{"memory", "+info", eachNode(checkMemory)},
	{"persistence", "+info", eachNode(checkPersistence)},
	{"disk", "+info", judged(health.Disk)},
	{"replicas", "+info +config|get", eachNode(checkReplicas)},
	{"listpack", "+config|get", checkListpack},
	{"slow_commands", "+slowlog|get", checkSlow},
	{"latency", "+ping", checkLatency},
	{"latency_events", "+latency|latest", checkLatencyEvents},
	{"cluster_state", "+cluster|info", checkCluster},
	{"other_prefix", "+scan, and ~* to see it", checkPrefixes},
	{"original_server", "+client|list", checkOriginal},
	{"servers", "the operator's permissions", judged(health.Servers)},
	{"clock", "+time", checkClock},
	{"overdue", "the operator's permissions", judged(health.Overdue)},
	{"no_consumer", "the operator's permissions", checkConsumers},
	{"dead_letters", "the operator's permissions", checkDead},
	{"paused", "the operator's permissions", judged(health.Paused)},
	{"throttled", "the operator's permissions", judged(health.Throttled)},
	{"schedules", "the operator's permissions", checkSchedules},
	{"counters", "the operator's permissions", judged(health.Counters)},
}

func one(evidence, fix string) []Finding { return []Finding{{Evidence: evidence, Fix: fix}} }

// info is the output of INFO.
type info map[string]string

func (i info) number(field string) int64 {
	n, _ := strconv.ParseInt(i[field], 10, 64)
	return n
}

// eachNode returns a check that examines the INFO of every node.
func eachNode(check func(ctx context.Context, d *Doctor, node *store.Store, says info) ([]Finding, error)) func(context.Context, *Doctor) ([]Finding, error) {
	return func(ctx context.Context, d *Doctor) ([]Finding, error) {
		return d.each(func(node *store.Store) ([]Finding, error) {
			says, err := node.Info(ctx)
			if err != nil {
				return nil, err
			}
			return check(ctx, d, node, says)
		})
	}
}

func checkPolicy(_ context.Context, _ *Doctor, _ *store.Store, says info) ([]Finding, error) {
	if policy := says["maxmemory_policy"]; policy != "" && policy != "noeviction" {
		return one("a full Redis evicts jobs: its maxmemory-policy is "+policy, "redis-cli CONFIG SET maxmemory-policy noeviction"), nil
	}
	return nil, nil
}

const almostFull = 0.9

func checkMemory(_ context.Context, _ *Doctor, _ *store.Store, says info) ([]Finding, error) {
	used, most := says.number("used_memory"), says.number("maxmemory")
	if most == 0 || float64(used) <= almostFull*float64(most) {
		return nil, nil
	}
	return one(fmt.Sprintf("%d %% of maxmemory is used; a full Redis refuses pushes", used*100/most), "raise maxmemory, or let consumers catch up: delayer stats"), nil
}

func checkPersistence(ctx context.Context, _ *Doctor, node *store.Store, says info) ([]Finding, error) {
	if says["aof_enabled"] != "0" {
		return nil, nil
	}
	saved := time.Unix(says.number("rdb_last_save_time"), 0).Format(time.DateTime)
	evidence := fmt.Sprintf("AOF is off: a crash of Redis loses what changed since %s, now %d writes", saved, says.number("rdb_changes_since_last_save"))
	return one(evidence, "redis-cli CONFIG SET appendonly yes, and in redis.conf"), nil
}

func checkReplicas(ctx context.Context, d *Doctor, node *store.Store, says info) ([]Finding, error) {
	replicas := says.number("connected_slaves")
	if says["role"] != "master" || replicas == 0 && !d.InHA {
		return nil, nil
	}
	if replicas == 0 {
		return one("the master has no replica: nothing takes over when it dies", "start a replica: redis-cli REPLICAOF"), nil
	}
	settings, err := node.Config(ctx, "min-replicas-to-write")
	if err == nil && settings["min-replicas-to-write"] == "0" {
		return one("min-replicas-to-write is 0: a failover loses what a master without replicas has acknowledged", "redis-cli CONFIG SET min-replicas-to-write 1"), nil
	}
	return nil, err
}

const sampled = 100 // jobs

// checkListpack compares the bodies of some jobs with the largest value that Redis keeps in its
// compact encoding.
func checkListpack(ctx context.Context, d *Doctor) ([]Finding, error) {
	settings, err := d.nodes[0].Store.Config(ctx, "hash-max-listpack-value", "hash-max-ziplist-value")
	if err != nil {
		return nil, err
	}
	limit, err := strconv.Atoi(cmp.Or(settings["hash-max-listpack-value"], settings["hash-max-ziplist-value"]))
	if err != nil {
		return nil, nil
	}
	page, err := d.Jobs.Browse(ctx, inspect.Query{State: inspect.Waiting, Limit: sampled})
	if err != nil {
		return nil, err
	}
	larger, size := 0, 0
	for _, job := range page.Jobs {
		if job.Size > limit && job.Size <= 1024 {
			larger, size = larger+1, max(size, job.Size)
		}
	}
	if len(page.Jobs) < 10 || larger <= len(page.Jobs)/2 {
		return nil, nil
	}
	evidence := fmt.Sprintf("%d of %d bodies exceed hash-max-listpack-value %d, and take up to a third more memory", larger, len(page.Jobs), limit)
	return one(evidence, fmt.Sprintf("redis-cli CONFIG SET hash-max-listpack-value %d", max(size, 128))), nil
}

const slow, lately = 10 * time.Millisecond, time.Hour

func checkSlow(ctx context.Context, d *Doctor) ([]Finding, error) {
	return d.each(func(node *store.Store) ([]Finding, error) {
		list, err := node.SlowCommands(ctx)
		list = slices.DeleteFunc(list, func(c store.SlowCommand) bool { return c.Took < slow || time.Since(c.At) > lately })
		if err != nil || len(list) == 0 {
			return nil, err
		}
		worst := slices.MaxFunc(list, func(a, b store.SlowCommand) int { return cmp.Compare(a.Took, b.Took) })
		evidence := fmt.Sprintf("commands slower than %v in the last hour: %d, the slowest %s with %v", duration.Format(slow), len(list), strings.ToUpper(worst.Arguments[0]), duration.Format(worst.Took))
		return one(evidence, "redis-cli SLOWLOG GET; keep other programs' slow commands out of this Redis"), nil
	})
}

const pings, budget = 10, 2 * time.Millisecond

// checkLatency measures the fastest of several pings.
func checkLatency(ctx context.Context, d *Doctor) ([]Finding, error) {
	return d.each(func(node *store.Store) ([]Finding, error) {
		fastest := time.Hour
		for range pings {
			began := time.Now()
			if err := node.Ping(ctx); err != nil {
				return nil, err
			}
			fastest = min(fastest, time.Since(began))
		}
		if fastest <= budget {
			return nil, nil
		}
		return one(fmt.Sprintf("the fastest of %d pings took %s", pings, duration.Format(fastest.Round(time.Microsecond))), "redis-cli --latency; run the daemon near Redis"), nil
	})
}

// checkLatencyEvents reports what Redis's own latency monitor has seen, such as a slow fork or a slow disk.
func checkLatencyEvents(ctx context.Context, d *Doctor) ([]Finding, error) {
	return d.each(func(node *store.Store) (found []Finding, _ error) {
		list, err := node.LatencyEvents(ctx)
		for _, e := range list {
			if e.Took >= slow && time.Since(e.At) < lately {
				found = append(found, Finding{Evidence: fmt.Sprintf("Redis stood still for %v at %s: %s", duration.Format(e.Took), e.At.Format(time.DateTime), e.Name), Fix: "redis-cli LATENCY DOCTOR"})
			}
		}
		return found, err
	})
}

func checkCluster(ctx context.Context, d *Doctor) ([]Finding, error) {
	if !d.nodes[0].Store.InCluster() {
		return nil, nil
	}
	return d.each(func(node *store.Store) ([]Finding, error) {
		state, err := node.ClusterState(ctx)
		if err != nil || state == "ok" {
			return nil, err
		}
		addr, _ := node.Addr(ctx)
		return one("node "+addr+" says that its cluster's state is "+state, "redis-cli --cluster check "+addr), nil
	})
}

const scannedSteps, scannedKeys = 50, 1000

// checkPrefixes looks for job pools under other prefixes among the first keys of each node.
func checkPrefixes(ctx context.Context, d *Doctor) ([]Finding, error) {
	return d.each(func(node *store.Store) (found []Finding, _ error) {
		at := "0"
		for range scannedSteps {
			names, next, err := node.ScanKeys(ctx, "", at, scannedKeys)
			if err != nil {
				return found, err
			}
			for _, name := range names {
				if prefix, is := strings.CutSuffix(name, "job_pool"); is && !strings.HasPrefix(name, d.fleet.Prefix) {
					found = append(found, Finding{Evidence: fmt.Sprintf("there are jobs under the prefix %q; this one is %q", prefix, d.fleet.Prefix), Fix: "set redis.prefix, or skip this check if they are another installation's"})
				}
			}
			if at = next; at == "0" {
				break
			}
		}
		return found, nil
	})
}

// checkOriginal looks for connections that poll like the original's server, which uses no scripts.
func checkOriginal(ctx context.Context, d *Doctor) ([]Finding, error) {
	return d.each(func(node *store.Store) ([]Finding, error) {
		n, err := node.ConnectionsAt(ctx, "zrangebyscore")
		if err != nil || n == 0 {
			return nil, err
		}
		return one(fmt.Sprintf("connections that poll as a server of the original does: %d; jobs may be queued twice", n), "stop the original server; redis-cli CLIENT LIST names its address"), nil
	})
}

const clockSlack = time.Second

func checkClock(ctx context.Context, d *Doctor) ([]Finding, error) {
	began := time.Now()
	at, err := d.nodes[0].Store.Time(ctx)
	if err != nil {
		return nil, err
	}
	if off := at.Sub(began).Abs(); off > clockSlack+time.Since(began) {
		return one(fmt.Sprintf("this host's clock and Redis's differ by %v: clients of the original set due times by their own", duration.Format(off.Round(time.Millisecond))), "synchronize both clocks"), nil
	}
	return nil, nil
}

func checkConsumers(ctx context.Context, d *Doctor) (found []Finding, _ error) {
	waiting, err := health.Waiting(d.view)
	if err != nil {
		return nil, err
	}
	topics := make([]store.WaitedFor, len(waiting))
	for i, t := range waiting {
		topics[i].Topic = t.Topic
	}
	clients, err := d.Jobs.Waiters(ctx, topics)
	for i, t := range waiting {
		if i < len(clients) && clients[i] == 0 {
			found = append(found, Finding{What: fmt.Sprintf("topic %q", t.Topic), Evidence: fmt.Sprintf("it has had ready jobs for %v that nobody takes, now %d", duration.Format(t.AtLeast.Round(time.Second)), t.Ready), Fix: "start a consumer: delayer worker --topic " + t.Topic})
		}
	}
	return found, err
}

// checkDead finds topics whose newest dead letter is at most an hour old.
func checkDead(ctx context.Context, d *Doctor) (found []Finding, _ error) {
	var topics []string
	var letters []int
	for _, t := range d.view.Topics {
		if t.Dead > 0 {
			topics, letters = append(topics, t.Topic), append(letters, t.Dead)
		}
	}
	dead, err := d.Jobs.DeadLately(ctx, topics, time.Now())
	for i, of := range dead {
		if age := time.Since(of.Newest); age < lately {
			found = append(found, Finding{
				What:     fmt.Sprintf("topic %q", topics[i]),
				Evidence: fmt.Sprintf("dead letters %d, the newest %v old", letters[i], duration.Format(age.Round(time.Second))),
				Fix:      "delayer dead list " + topics[i],
			})
		}
	}
	return found, cmp.Or(err, d.view.CountsErr)
}

func checkSchedules(ctx context.Context, d *Doctor) (found []Finding, _ error) {
	all, err := d.Jobs.Schedules(ctx)
	for _, s := range all.List {
		if !s.Next.IsZero() && s.Paused.IsZero() && all.Time.Sub(s.Next) > health.Late {
			found = append(found, Finding{What: fmt.Sprintf("schedule %q", s.Name), Evidence: fmt.Sprintf("it has been due for %v", duration.Format(all.Time.Sub(s.Next).Round(time.Second))), Fix: "delayer schedule list; the error log names the reason"})
		}
		if s.NotRun.Late > 0 && len(s.Past) > 0 && s.Past[len(s.Past)-1].What == store.OccurrenceLate {
			found = append(found, Finding{What: fmt.Sprintf("schedule %q", s.Name), Evidence: fmt.Sprintf("it missed its last occurrence, and %d in all", s.NotRun.Late), Fix: "delayer schedule run " + s.Name})
		}
	}
	return found, err
}
