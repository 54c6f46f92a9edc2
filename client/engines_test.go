package client_test

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// TestOldEnginesData moves the data of an old Redis, which formats scores differently, to the engine of the test run.
// All jobs, leases, groups and pushes with Once stay unchanged.
func TestOldEnginesData(t *testing.T) {
	redistest.Long(t)
	for name, way := range map[string]struct {
		appendOnly string
		move       func(t *testing.T, old *redistest.Server) *redistest.Server
	}{
		"RDB":      {"no", moveRDB},
		"AOF":      {"yes", moveAOF},
		"failover": {"no", failOver},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			old := &fixture{Server: redistest.StartOld(t, "--appendonly", way.appendOnly)}
			old.Client = old.open()
			leases := old.fillForMove()
			was, ids := old.jobs()

			f := &fixture{Server: way.move(t, old.Server)}
			f.Client = f.open()
			is, _ := f.jobs()
			for _, id := range ids {
				if was, is := was[id], is[id]; !reflect.DeepEqual(is, was) {
					t.Errorf("%s is\n%+v, and was\n%+v", id, is, was)
				}
			}
			f.goOnAfterMove(leases)
		})
	}
}

func moveRDB(t *testing.T, old *redistest.Server) *redistest.Server {
	old.Do("SAVE")
	return moveFiles(t, old, redistest.Start(t))
}

func moveAOF(t *testing.T, old *redistest.Server) *redistest.Server {
	return moveFiles(t, old, redistest.Start(t, "--appendonly", "yes"))
}

// moveFiles replaces the server's files with those of the old one and restarts it.
func moveFiles(t *testing.T, old, s *redistest.Server) *redistest.Server {
	old.Kill()
	s.Kill()
	check(t, os.RemoveAll(filepath.Join(s.Dir, "appendonlydir")))
	check(t, os.CopyFS(s.Dir, os.DirFS(old.Dir)))
	s.Restart()
	return s
}

func failOver(t *testing.T, old *redistest.Server) *redistest.Server {
	s := redistest.StartReplica(t, old)
	old.Kill()
	s.Do("REPLICAOF", "NO", "ONE")
	return s
}

// fillForMove creates jobs in all states, including due times without an exact score. It returns the tokens of the
// leases, by ID.
func (f *fixture) fillForMove() map[string]int64 {
	f.TB.Helper()
	ctx := f.TB.Context()
	at := time.Now().Add(time.Hour / 2).Truncate(time.Second)
	for id, fraction := range map[string]time.Duration{"waits": 123, "reschedule": 571, "remove": 999, "keep": 1} {
		_, err := f.PushAt(ctx, client.Message{ID: id, Topic: "later", Body: "body"}, at.Add(fraction*time.Millisecond))
		check(f.TB, err)
	}
	tokens := map[string]int64{}
	reserve := func(topic, id string, lease time.Duration) *client.Delivery {
		f.push(id, topic, client.JobOptions{MaxAttempts: 9})
		d := f.reserveBy(f.Client, topic, id, lease)
		tokens[id] = d.Token
		return d
	}
	for _, id := range []string{"ack", "extend", "retry", "release", "postpone", "bury", "followed"} {
		reserve("t", id, time.Hour)
	}
	reserve("t", "lost", time.Hour)
	f.push("lost", "t")
	token := tokens["lost"]
	reserve("t", "lost", time.Hour)
	tokens["lost"] = token // the token of the earlier lease
	check(f.TB, reserve("t", "dead", time.Hour).Bury(ctx, errors.New("reason")))
	reserve("lapses", "lapses", 100*time.Millisecond)
	f.push("followed", "t", client.IfExists(client.Follow()))

	check(f.TB, f.SetLimit(ctx, "limited", client.Limit{Concurrency: 1}))
	reserve("limited", "slot", time.Hour)
	f.push("no slot", "limited")
	f.push("parked", "paused")
	check(f.TB, f.Pause(ctx, "paused", client.PauseOptions{}))

	f.put(message("once"), 61*time.Minute, client.IfExists(client.Once(time.Hour)))
	f.put(message("as"), 62*time.Minute, client.IfExists(client.OnceAs(time.Hour, "content")))
	f.put(client.Message{Topic: "grouped", Body: "1"}, 0, client.Group{Key: "k", Max: 2, Longest: time.Hour})
	_, err := f.Schedules().Set(ctx, hourly("s"))
	check(f.TB, err)
	return tokens
}

// jobs returns all jobs, without their TTLs, and their IDs.
func (f *fixture) jobs() (jobs map[string]client.JobInfo, ids []string) {
	f.TB.Helper()
	jobs = map[string]client.JobInfo{}
	state := f.State()
	for _, buckets := range []map[string]string{state.Buckets, state.Letters} {
		for id := range buckets {
			job, err := f.Get(f.TB.Context(), id)
			check(f.TB, err)
			job.TTL = 0
			jobs[id] = job
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return jobs, ids
}

// goOnAfterMove completes the remaining work on these jobs.
func (f *fixture) goOnAfterMove(tokens map[string]int64) {
	f.TB.Helper()
	ctx := f.TB.Context()
	held := func(id string) *client.Delivery { return f.Delivery("t", id, tokens[id]) }
	expectErr(f.TB, "Ack of another lease", held("lost").Ack(ctx), client.ErrLeaseLost)
	for call, err := range map[string]error{
		"Ack":             held("ack").Ack(ctx),
		"Extend":          held("extend").Extend(ctx, 2*time.Hour),
		"Retry":           held("retry").Retry(ctx, 63*time.Minute, nil),
		"Release":         held("release").Release(ctx, 0),
		"Release later":   held("postpone").Release(ctx, 64*time.Minute),
		"Bury":            held("bury").Bury(ctx, errors.New("reason")),
		"Ack of followed": held("followed").Ack(ctx),
		"Requeue":         f.Requeue(ctx, "dead"),
		"Reschedule":      f.Reschedule(ctx, "reschedule", 2*time.Hour),
		"Remove":          errOf(f.Remove(ctx, "remove")),
		"KeepEarlier":     errOf(f.Push(ctx, client.Message{ID: "keep", Topic: "later", Body: message("").Body}, 3*time.Hour, client.IfExists(client.KeepEarlier()))),
		"Group":           errOf(f.Push(ctx, client.Message{Topic: "grouped", Body: "2"}, 0, client.Group{Key: "k", Max: 2, Longest: time.Hour})),
	} {
		expectErr(f.TB, call, err, nil)
	}
	expectErr(f.TB, "Once", errOf(f.Push(ctx, message("once"), 0, client.IfExists(client.Once(time.Hour)))), client.ErrExists)
	for content, want := range map[string]error{"content": client.ErrExists, "another": client.ErrReused} {
		expectErr(f.TB, "OnceAs of "+content, errOf(f.Push(ctx, message("as"), 0, client.IfExists(client.OnceAs(time.Hour, content)))), want)
	}
	expectErr(f.TB, "Reserve beyond the limit", errOf(f.Fetch(ctx, client.FetchOptions{Topics: fetchTopics("limited"), Max: 1, NoWait: true})), client.ErrEmpty)
	check(f.TB, f.Delivery("limited", "slot", tokens["slot"]).Ack(ctx))
	f.reserveBy(f.Client, "limited", "no slot", time.Hour)
	expectErr(f.TB, "Resume", errOf(f.Resume(ctx, "paused")), nil)

	stop := f.serve()
	if again := f.reserveBy(f.Client, "lapses", "lapses", time.Hour); again.Attempt != 2 || again.Token <= tokens["lapses"] {
		f.TB.Errorf("delivered again as attempt %d, with the token %d after %d", again.Attempt, again.Token, tokens["lapses"])
	}
	if group, err := f.BPop(ctx, hangBound, "grouped"); err != nil || group.Body != "[1,2]" {
		f.TB.Errorf("the group is %s, %v", group.Body, err)
	}
	stop()
	body := message("").Body
	f.Expect(state{
		Pool:     []string{"keep", "waits", "{s}@schedule", "once", "as", "retry", "postpone", "reschedule"},
		Reserved: []string{"lost", "no slot", "lapses", "extend"},
		Counts:   map[string]string{"t": "2", "limited": "1", "lapses": "1"},
		Limits:   map[string]string{"limited": "1 0 0 "},
		Slots:    queues{"limited": {"no slot"}},
		Ready:    queues{"t": {"release", "followed", "dead"}, "paused": {"parked"}},
		Buckets: buckets{
			"waits": "later body", "reschedule": "later body", "keep": "later " + body, "once": "t " + body, "as": "t " + body, "retry": "t body",
			"postpone": "t body", "lost": "t body", "extend": "t body", "no slot": "limited body", "lapses": "lapses body", "followed": "t body",
			"dead": "t body", "release": "t body", "parked": "paused body", "{s}@schedule": "delayer:schedules @every 1h0m0s",
		},
		Dead:      queues{"t": {"bury"}},
		Letters:   buckets{"bury": "t body"},
		Once:      []string{"as", "once"},
		Schedules: []string{"s"},
	})
}
