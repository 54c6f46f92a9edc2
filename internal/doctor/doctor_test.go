package doctor

import (
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/inspect"
	"github.com/mix-basic/delayer/internal/testing/clienttest"
	"github.com/mix-basic/delayer/internal/testing/redistest"
	"github.com/mix-basic/delayer/server"
)

func TestMain(m *testing.M) { os.Exit(redistest.Run(m, 10)) }

func examine(t *testing.T, pool *redis.Pool, skip ...string) Report {
	t.Helper()
	r := client.UsePool(pool, 1)
	d := New(clienttest.Jobs(r, ""))
	d.User = "u"
	d.Server = redistest.Must(server.New(r, server.Options{Logger: slog.New(slog.DiscardHandler)})).Check
	return d.Examine(t.Context(), skip)
}

func names(r Report) (names []string) {
	for _, f := range r.Findings {
		names = append(names, f.Kind)
		if f.Evidence == "" || f.Fix == "" {
			names = append(names, "without evidence or fix")
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func run(t *testing.T, pool *redis.Pool) (stop func()) {
	r := client.UsePool(pool, 1)
	stop = redistest.Background(t, redistest.Must(server.New(r, server.Options{Logger: slog.New(slog.DiscardHandler)})).Run)
	jobs := inspect.New(clienttest.Jobs(r, ""))
	redistest.Until(t, "the server has an entry", func() bool {
		servers, err := jobs.Servers(t.Context())
		return err == nil && len(servers) > 0
	})
	return stop
}

// plantedTogether are the findings that TestFindings plants in one Redis.
var plantedTogether = []string{"counters", "dead_letters", "eviction_policy", "listpack", "no_consumer", "original_server", "other_prefix", "overdue", "paused", "persistence", "schedules", "servers", "slow_commands"}

// A sound installation has no findings. Each fault has its own finding.
func TestFindings(t *testing.T) {
	t.Parallel()
	f := redistest.Start(t, "--appendonly", "yes")
	pool := f.Pool()
	stop := run(t, pool)
	if r := examine(t, pool, "latency", "slow_commands"); len(r.Findings)+len(r.NotChecked) > 0 || r.Checked != len(checks)-2 || len(r.Skipped) != 2 {
		t.Errorf("%+v", r)
	}
	stop()
	now := time.Now()
	f.Do("CONFIG", "SET", "appendonly", "no", "maxmemory-policy", "allkeys-lru")
	f.Do("CONFIG", "SET", "maxmemory", "100mb")
	f.Do("EVAL", "local t = redis.call('TIME') repeat local n = redis.call('TIME') until n[1] * 1e6 + n[2] - t[1] * 1e6 - t[2] > 20000", 0)
	f.Do("ZADD", "other:job_pool", 1, "1")
	f.Do("HSET", "delayer:servers", "a:1:x", fmt.Sprintf(`{"now":%d,"started":%d,"interval":1000,"host":"a","pid":1,"version":"1","error":"it is broken","lateness":[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0]}`, now.UnixMilli(), now.UnixMilli()))
	f.Do("HSET", "delayer:servers", "b:2:x", fmt.Sprintf(`{"now":%d,"started":%d,"interval":2000,"host":"b","pid":2,"version":"2","lateness":[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0]}`, now.UnixMilli(), now.UnixMilli()))
	for i := range 20 {
		f.Do("HSET", fmt.Sprint("delayer:job_bucket:", i), "topic", "t", "body", strings.Repeat("x", 200))
		f.Do("ZADD", "delayer:job_pool", now.Add(-time.Minute).Unix(), i)
	}
	f.Do("HSET", "delayer:job_bucket:r", "topic", "nobody", "body", "b")
	f.Do("PEXPIRE", "delayer:job_bucket:r", 604800000-60000)
	f.Do("LPUSH", "delayer:ready_queue:nobody", "r")
	f.Do("ZADD", "delayer:topics", now.Unix(), "nobody", now.Unix(), "dead")
	f.Do("HSET", "delayer:dead_letter:d", "topic", "dead", "body", "b")
	f.Do("ZADD", "delayer:dead_letters:dead", now.UnixMilli(), "d")
	f.Do("ZADD", "delayer:dead_topics", now.UnixMilli(), "dead")
	f.Do("HSET", "delayer:reserved", "nobody", 0, "dead", 99)
	f.Do("HSET", "delayer:paused", "p", fmt.Sprint(now.UnixMilli(), " 0 0 0 "))
	f.Do("HSET", "delayer:job_bucket:{s}@schedule", "topic", "delayer:schedules", "body", "@every 1h", "zone", "UTC", "revision", 1, "next", now.Add(-time.Minute).UnixMilli(), "to", "t", "content", "b", "options", "0 0 604800000", "missed", "once", "overlap", "allow", "jitter", 0)
	f.Do("ZADD", "delayer:schedules", 0, "s")
	f.Do("ZADD", "delayer:job_pool", now.Add(-time.Minute).Unix(), "{s}@schedule")
	old, err := redis.Dial("tcp", f.Addr)
	redistest.Check(t, err)
	defer old.Close()
	_, err = old.Do("ZRANGEBYSCORE", "delayer:job_pool", 0, 1)
	redistest.Check(t, err)
	r := examine(t, pool, "latency")
	if got := names(r); !slices.Equal(got, plantedTogether) {
		t.Errorf("%q, want %q: %+v", got, plantedTogether, r)
	}
}

// Topics with dead letters are asked about together: an examination makes as many calls for 50 as for one.
func TestManyDeadTopics(t *testing.T) {
	t.Parallel()
	f := redistest.Start(t)
	pool := f.Pool()
	bury := func(topic string) {
		f.Do("HSET", "delayer:dead_letter:"+topic, "topic", topic, "body", "b")
		f.Do("ZADD", "delayer:dead_letters:"+topic, time.Now().UnixMilli(), topic)
		f.Do("ZADD", "delayer:dead_topics", time.Now().UnixMilli(), topic)
		f.Do("ZADD", "delayer:topics", time.Now().Unix(), topic)
	}
	scripts := func(topics int) int {
		f.Do("CONFIG", "RESETSTAT")
		r := examine(t, pool, "latency")
		found := 0
		for _, finding := range r.Findings {
			if finding.Kind == "dead_letters" {
				found++
			}
		}
		if found != topics {
			t.Errorf("%d topics have dead letters, want %d", found, topics)
		}
		return f.Calls("evalsha", "eval")
	}
	bury("0")
	scripts(1) // loads them
	one := scripts(1)
	for n := range 49 {
		bury(fmt.Sprint(n + 1))
	}
	if many := scripts(50); many > one {
		t.Errorf("%d scripts for 50 topics, %d for one", many, one)
	}
}

// Checks that the user may not make are reported as not checked, never as fine. With the documented
// permissions every check is made.
func TestRights(t *testing.T) {
	t.Parallel()
	f := redistest.Start(t, "--appendonly", "yes")
	f.SetUser(redistest.Rights(t, "daemon", "operator"))
	r := examine(t, f.UserPool())
	var missing []string
	for _, n := range r.NotChecked {
		missing = append(missing, n.Name)
	}
	if want := []string{"listpack", "slow_commands", "latency_events", "other_prefix", "original_server"}; !slices.Equal(missing, want) {
		t.Errorf("not checked: %q, want %q", missing, want)
	}
	f.SetUser(redistest.Rights(t, "daemon", "operator", "doctor"))
	if r := examine(t, f.UserPool()); len(r.NotChecked) > 0 {
		t.Errorf("not checked: %+v", r.NotChecked)
	}
	f.SetUser(redistest.Rights(t, "producer"))
	if r := examine(t, f.UserPool()); !slices.Contains(names(r), Redis) {
		t.Errorf("%+v", r)
	}
}

// Whichever command of the daemon's ACL line its user lacks, a finding names it, and its fix is the documented line.
func TestEachMissingCommandIsNamed(t *testing.T) {
	t.Parallel()
	f := redistest.Start(t)
	daemon := strings.TrimSpace(redistest.Rights(t, "daemon"))
	skip := slices.DeleteFunc(Names(), func(name string) bool { return name == Redis || name == "channels" || name == "features" })
	for _, command := range strings.Fields(daemon) {
		if command[0] != '+' || command == "+ping" || command == "+select" { // it can do without these
			continue
		}
		f.Do("SCRIPT", "FLUSH")
		f.SetUser(daemon + " -" + command[1:])
		r := examine(t, f.UserPool(), skip...)
		named := func(f Finding) bool {
			return regexp.MustCompile(`(?i)\b`+command[1:]+`\b`).MatchString(f.Evidence) && strings.HasSuffix(f.Fix, " ACL SETUSER u "+daemon)
		}
		if !slices.ContainsFunc(r.Findings, named) {
			t.Errorf("without %s: %+v", command, r.Findings)
		}
	}
}

// A user of a Cluster gets its line, too.
func TestGrantInACluster(t *testing.T) {
	f := redistest.StartNode(t)
	d := New(clienttest.Jobs(redistest.Must(client.Connect(client.PoolOptions{Cluster: []string{f.Addr}})), "{jobs}:"))
	d.User = "u"
	want := "redis-cli, then ACL SETUSER u ~{jobs}:* &{jobs}:* "
	if got := d.grant(); !strings.HasPrefix(got, want) || !strings.HasSuffix(got, redistest.Rights(t, "cluster")+" (on every node)") {
		t.Errorf("%q", got)
	}
}
