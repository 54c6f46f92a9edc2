package doctor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/testing/clienttest"
	"github.com/mix-basic/delayer/internal/testing/redistest"
	"github.com/mix-basic/delayer/server"
)

// installation is what a planted fault is examined in.
type installation struct {
	redis  *client.Redis
	prefix string
	inHA   bool
}

// on is an installation in the pool's Redis.
func on(pool *redis.Pool, partitions int) installation {
	return installation{redis: client.UsePool(pool, partitions)}
}

// fault is a planted fault: the name of its check, and words of the evidence.
type fault struct {
	name, evidence string
	plant          func(t *testing.T) installation
}

// planted lists the faults that TestFindings does not plant.
var planted = []fault{
	{"unreadable", "WRONGTYPE", func(t *testing.T) installation {
		f := redistest.Start(t)
		f.Do("SET", "delayer:{1}:job_pool", "x")
		return on(f.Pool(), 2)
	}},
	{"redis", "redis refuses", func(t *testing.T) installation {
		f := redistest.Start(t)
		f.SetUser(redistest.Rights(t, "producer"))
		return on(f.UserPool(), 1)
	}},
	{"channels", "subscribe to delayer:", func(t *testing.T) installation {
		f := redistest.Start(t)
		f.SetUser(strings.ReplaceAll(redistest.Rights(t, "daemon"), "&delayer:*", "resetchannels"))
		return on(f.UserPool(), 1)
	}},
	{"features", "+hlen", func(t *testing.T) installation {
		f := redistest.Start(t)
		f.SetUser(redistest.Rights(t, "daemon") + " -hlen")
		return on(f.UserPool(), 1)
	}},
	{"memory", "of maxmemory is used", func(t *testing.T) installation {
		f := redistest.Start(t)
		f.Do("CONFIG", "SET", "maxmemory", f.InfoNumber("memory", "used_memory")+50<<10)
		return on(f.Pool(), 1)
	}},
	{"disk", "the last snapshot has failed", func(t *testing.T) installation {
		f := redistest.Start(t)
		failSnapshot(f)
		return on(f.Pool(), 1)
	}},
	{"replicas", "no replica", func(t *testing.T) installation {
		return installation{redis: client.UsePool(redistest.Start(t).Pool(), 1), inHA: true}
	}},
	{"replicas", "min-replicas-to-write is 0", func(t *testing.T) installation {
		f := redistest.Start(t)
		redistest.StartReplica(t, f)
		return on(f.Pool(), 1)
	}},
	{"latency", "the fastest of 10 pings took", func(t *testing.T) installation {
		return on(redistest.Start(t).Pool(redis.DialContextFunc(func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, network, addr)
			return slowConn{conn}, err
		})), 1)
	}},
	{"latency_events", ": command", func(t *testing.T) installation {
		f := redistest.Start(t, "--latency-monitor-threshold", "10") // a shorter one later would be the latest
		f.Do("EVAL", "local t = redis.call('TIME') repeat local n = redis.call('TIME') until n[1] * 1e6 + n[2] - t[1] * 1e6 - t[2] > 20000", 0)
		return on(f.Pool(), 1)
	}},
	{"cluster_state", "cluster's state is fail", func(t *testing.T) installation {
		f := redistest.StartNode(t)
		slot := int(f.Do("CLUSTER", "KEYSLOT", "{jobs}:").(int64))
		f.Do("CLUSTER", "DELSLOTS", (slot+1)%16384) // a slot without jobs
		redistest.Until(t, "the node refuses to serve", func() bool {
			return strings.Contains(string(f.Do("CLUSTER", "INFO").([]byte)), "cluster_state:fail")
		})
		return installation{redis: redistest.Must(client.Connect(client.PoolOptions{Cluster: []string{f.Addr}})), prefix: "{jobs}:"}
	}},
	{"servers", "it was last seen", func(t *testing.T) installation { // next to one that works
		f, now := redistest.Start(t), time.Now().UnixMilli()
		for i, at := range []int64{now, now - 2*time.Minute.Milliseconds()} {
			f.Do("HSET", "delayer:servers", fmt.Sprint("h:", i, ":x"), fmt.Sprintf(`{"now":%d,"started":%d,"interval":1000,"host":"h","pid":%d,"version":"1","lateness":[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0]}`, at, at, i))
		}
		return on(f.Pool(), 1)
	}},
	// The clock of a redis-server is this machine's, and only root could change it. An in-memory Redis has a clock that a test
	// can set: the check asks it like any other.
	{"clock", "differ by ", func(t *testing.T) installation {
		m := miniredis.RunT(t)
		m.SetTime(time.Now().Add(time.Hour))
		return installation{redis: redistest.Must(client.Connect(client.PoolOptions{Addr: m.Addr()}))}
	}},
	{"throttled", "ready jobs that wait for its limit: 2", func(t *testing.T) installation {
		f := redistest.Start(t)
		c := clienttest.On(f.Pool())
		redistest.Check(t, c.SetLimit(t.Context(), "t", client.Limit{Concurrency: 1}))
		for _, id := range []string{"1", "2", "3"} {
			_, err := c.Push(t.Context(), client.Message{ID: id, Topic: "t", Body: "b"}, 0)
			redistest.Check(t, err)
		}
		for range 2 { // the second finds the topic throttled
			if _, err := c.Fetch(t.Context(), clienttest.Ready("t", 1, time.Minute)); err != nil && !errors.Is(err, client.ErrEmpty) {
				t.Fatal(err)
			}
		}
		for _, id := range []string{"2", "3"} { // ready for a minute
			f.Do("PEXPIRE", "delayer:job_bucket:"+id, (7*24*time.Hour - time.Minute).Milliseconds())
		}
		return on(f.Pool(), 1)
	}},
	{"throttled", "without its limit's tag", func(t *testing.T) installation {
		f := redistest.Start(t)
		c := redistest.Must(client.New(client.UsePool(f.Pool(), 4)))
		redistest.Check(t, c.SetLimit(t.Context(), "t", client.Limit{Concurrency: 1, Tag: "m"}))
		for _, id := range []string{"1", "2", "3", "4", "5", "6", "7", "8"} {
			_, err := c.Push(t.Context(), client.Message{ID: id, Topic: "t", Body: "b"}, 0)
			redistest.Check(t, err)
		}
		return on(f.Pool(), 4)
	}},
}

// failSnapshot makes Redis fail to write a snapshot.
func failSnapshot(f *redistest.Server) {
	redistest.Check(f.TB, os.RemoveAll(f.Dir))
	f.Do("BGSAVE")
	redistest.Until(f.TB, "the snapshot has failed", func() bool {
		return strings.Contains(string(f.Do("INFO", "persistence").([]byte)), "rdb_last_bgsave_status:err")
	})
}

// slowConn is a connection over a slow network. A proxy may catch up after the machine was busy, and then one ping is fast.
type slowConn struct{ net.Conn }

func (c slowConn) Write(b []byte) (int, error) {
	time.Sleep(2 * budget)
	return c.Conn.Write(b)
}

// The check of a planted fault finds it.
func TestPlanted(t *testing.T) {
	t.Parallel()
	for _, p := range planted {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			in := p.plant(t)
			d := New(clienttest.Jobs(in.redis, in.prefix))
			d.InHA = in.inHA
			d.Server = redistest.Must(server.New(in.redis, server.Options{Logger: slog.New(slog.DiscardHandler), Prefix: in.prefix})).Check
			r := d.Examine(t.Context(), slices.DeleteFunc(Names(), func(name string) bool { return name == p.name }))
			found := func(f Finding) bool {
				return f.Kind == p.name && strings.Contains(f.Evidence, p.evidence) && f.Fix != ""
			}
			if !slices.ContainsFunc(r.Findings, found) { // a busy machine may have more latency events
				t.Errorf("%+v", r)
			}
		})
	}
}

// Each finding is planted by some test.
func TestEachFindingIsPlanted(t *testing.T) {
	for _, name := range Names() {
		here := slices.ContainsFunc(planted, func(f fault) bool { return f.name == name })
		if !here && !slices.Contains(plantedTogether, name) {
			t.Errorf("no test plants %s", name)
		}
	}
}

// What keeps checks from being made is a finding, once, and the others are made.
func TestEachErrorIsAFinding(t *testing.T) {
	t.Parallel()
	wrongType := func(keys ...string) func(*redistest.Server) {
		return func(f *redistest.Server) {
			for _, key := range keys {
				f.Do("SET", key, "x")
			}
		}
	}
	for _, c := range []struct {
		name, finding string // of which the text is a part
		breaks        func(*redistest.Server)
		args          []string
	}{
		{"MISCONF", "disk: the last snapshot has failed", failSnapshot, []string{"--save", "3600 1"}},
		{"READONLY", "unreadable: redis: READONLY", func(f *redistest.Server) { f.Do("REPLICAOF", "127.0.0.1", 1) }, []string{"--replica-serve-stale-data", "yes"}},
		{"NOREPLICAS", "unreadable: redis: NOREPLICAS", func(*redistest.Server) {}, []string{"--min-replicas-to-write", "1"}},
		{"INFO", "servers: no server runs", func(*redistest.Server) {}, []string{"--rename-command", "INFO", ""}},
		{"job_pool", "unreadable: count jobs: WRONGTYPE", wrongType("delayer:job_pool"), nil},
		{"topics", "unreadable: count jobs: WRONGTYPE", wrongType("delayer:topics"), nil},
		{"schedules", "unreadable: schedules: read schedules: WRONGTYPE", wrongType("delayer:schedules"), nil},
		{"paused", "unreadable: read pauses: WRONGTYPE", wrongType("delayer:paused"), nil},
		{"servers", "unreadable: read servers: WRONGTYPE", wrongType("delayer:servers"), nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := redistest.Start(t, c.args...)
			c.breaks(f)
			r := examine(t, f.Pool())
			all := ""
			for _, f := range r.Findings {
				all += f.Kind + ": " + f.String() + "\n"
			}
			if !strings.Contains(all, c.finding) || !strings.Contains(all, "servers: ") || strings.Count(all, c.finding) != 1 {
				t.Errorf("%s, want %s", all, c.finding)
			}
		})
	}
}

// Ready jobs of a topic that has reached its rate wait for that, not for a consumer.
func TestRateIsNoMissingConsumer(t *testing.T) {
	t.Parallel()
	f := redistest.Start(t)
	c := clienttest.On(f.Pool())
	redistest.Check(t, c.SetLimit(t.Context(), "t", client.Limit{Rate: 1. / 3600}))
	for _, id := range []string{"1", "2"} {
		_, err := c.Push(t.Context(), client.Message{ID: id, Topic: "t", Body: "b"}, 0)
		redistest.Check(t, err)
	}
	job, err := c.Reserve(t.Context(), time.Minute, "t")
	redistest.Check(t, err)
	redistest.Check(t, job.Ack(t.Context()))
	f.Do("PEXPIRE", "delayer:job_bucket:2", (7*24*time.Hour - time.Minute).Milliseconds()) // ready for a minute
	if got := names(examine(t, f.Pool())); slices.Contains(got, "no_consumer") || !slices.Contains(got, "throttled") {
		t.Errorf("%q", got)
	}
}
