package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/mix-basic/delayer/internal/testing/clienttest"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/exit"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// at returns the shell for another prefix and number of partitions.
func (s shell) at(prefix string, partitions int) shell {
	s.env = append(slices.Clone(s.env), "DELAYER_REDIS_PREFIX="+prefix, fmt.Sprintf("DELAYER_REDIS_PARTITIONS=%d", partitions))
	return s
}

// fillAll stores jobs in all states, and everything else that an installation has.
func fillAll(t *testing.T, c *client.Client) {
	t.Helper()
	ctx := t.Context()
	push := func(id, topic, body string, delay time.Duration, opts ...client.PushOption) {
		t.Helper()
		_, err := c.Push(ctx, client.Message{ID: id, Topic: topic, Body: body, Headers: map[string]string{"trace": "x"}}, delay, opts...)
		check(t, err)
	}
	push("waits", "t", "body", time.Hour, client.JobOptions{MaxAttempts: 3, Lease: time.Minute, ExpireAfter: time.Hour})
	push("any\xff\x00 {bytes", "any\xfe topic", "\x00\xff\r\n<&>\u2028", time.Hour)
	push("large", "t", strings.Repeat("1 MiB\xff\n\x00", 1<<17), 2*time.Hour)
	push("counts once", "t", "b", time.Hour, client.IfExists(client.OnceAs(time.Hour, "content")))
	for i := range 60 {
		push(fmt.Sprintf("{same}%02d", i), "ready", fmt.Sprint(i), 0)
	}
	for _, id := range []string{"retried", "held", "dead"} {
		push(id, "taken", id, 0)
		d, err := c.Reserve(ctx, 2*time.Hour, "taken")
		check(t, err)
		switch id {
		case "retried":
			check(t, d.Retry(ctx, time.Hour, nil))
		case "held":
			push(id, "taken", "follows", 0, client.IfExists(client.Follow()))
		case "dead":
			check(t, d.Bury(ctx, errors.New("for ever")))
		}
	}
	for i := range 3 {
		push("", "grouped", fmt.Sprint(i), 0, client.Group{Key: "key", Longest: time.Hour})
	}
	push("parked", "paused", "b", 0)
	check(t, c.Pause(ctx, "paused", client.PauseOptions{For: time.Hour, Note: "why"}))
	check(t, c.SetLimit(ctx, "limited", client.Limit{Concurrency: 17, Rate: 3, Burst: 5}))
	for _, name := range []string{"one", "two"} {
		_, err := c.Schedules().Set(ctx, client.Schedule{Name: name, Cron: "@every 1h", Topic: "t", Body: "b"})
		check(t, err)
	}
	check(t, c.Schedules().Pause(ctx, "two"))
}

// everythingIn returns what an export has, except for what a move changes: how long things are kept, and leases, of which the attempts stay.
func everythingIn(t *testing.T, export string) (all []string) {
	t.Helper()
	for line := range strings.Lines(export) {
		var r map[string]any
		check(t, json.Unmarshal([]byte(line), &r))
		if ttl, kept := r["ttl_ms"].(float64); kept && ttl < 3000*1000 {
			t.Errorf("%s is kept for %v ms only", r["id"], ttl)
		}
		delete(r, "ttl_ms")
		if ms, grouped := r["group_ms"].(float64); grouped {
			r["group_ms"] = int(ms / 1e6)
		}
		fields, _ := r["fields"].(map[string]any)
		delete(fields, "text") // of a group that is read soon
		if lease, leased := fields["lease"].(string); leased {
			fields["lease"], _, _ = strings.Cut(lease, " ")
		}
		if until, ends := r["until"].(string); ends && r["kind"] == "pause" {
			at, err := time.Parse(time.RFC3339, until)
			check(t, err)
			r["until"] = at.Round(time.Minute)
		}
		stays, err := json.Marshal(r, json.Deterministic(true))
		check(t, err)
		all = append(all, string(stays))
	}
	slices.Sort(all)
	return all
}

// Everything that one partition has is the same after a move to five, and back to one.
func TestExportOfEverything(t *testing.T) {
	rights := redistest.Rights(t, "mover") + " ~* &*"
	s, db := newShellHere(t)
	c := clienttest.On(db.Pool(), client.WithPrefix("a:"))
	defer c.Close()
	fillAll(t, c)
	db.SetUser(rights) // the documented permissions suffice
	fsck := s
	s.env = append(slices.Clone(s.env), "DELAYER_REDIS_USERNAME=u", "DELAYER_REDIS_PASSWORD=p")
	export := func(s shell) string {
		r := s.run("export", "--quiet")
		if r.code != 0 {
			t.Fatalf("export: %+v", r)
		}
		return r.stdout
	}
	imports := func(s shell, lines, format string, n, skipped int, args ...string) {
		t.Helper()
		check(t, os.WriteFile(s.dir+"/lines", []byte(lines), 0o600))
		s.expect(0, fmt.Sprintf(format+" %d, skipped %d, which exist\n", n, skipped), "", append([]string{"import", "lines"}, args...)...)
	}
	keys := func() []string { // but for the layout, which each program stores
		return slices.DeleteFunc(db.Strings("KEYS", "*"), func(key string) bool { return strings.HasSuffix(key, ":partitions") })
	}
	first := export(s.at("a:", 1))
	want := everythingIn(t, first)
	n := len(want)
	from := first
	for _, at := range []struct {
		prefix     string
		partitions int
	}{{"b:", 5}, {"c:", 1}} {
		to := s.at(at.prefix, at.partitions)
		before := keys()
		imports(to, from, "would be imported:", n, 0, "--dry-run")
		if after := keys(); len(after) != len(before) {
			t.Errorf("a dry run has stored %q", after)
		}
		// It is cut, and repeated.
		lines := slices.Collect(strings.Lines(from))
		imports(to, strings.Join(lines[:n/2], ""), "imported", n/2, 0)
		imports(to, from, "imported", n-n/2, n/2)
		from = export(to)
		if got := everythingIn(t, from); !slices.Equal(got, want) {
			lacks := slices.DeleteFunc(slices.Clone(want), func(line string) bool { return slices.Contains(got, line) })
			t.Fatalf("there are %d, want %d; missing are %.1000q", len(got), len(want), lacks)
		}
		imports(to, from, "imported", 0, n)
		if r := fsck.at(at.prefix, at.partitions).run("fsck"); !strings.HasSuffix(r.stdout, "nothing is wrong\n") {
			t.Errorf("fsck: %+v", r)
		}
	}

	if denied := db.Do("ACL", "LOG").([]any); len(denied) > 0 {
		t.Errorf("Redis has refused %q", denied)
	}
	moved := clienttest.On(db.Pool(), client.WithPrefix("c:"))
	defer moved.Close()
	expectToWork(t, moved)
}

// expectToWork uses what fillAll has stored.
func expectToWork(t *testing.T, moved *client.Client) {
	t.Helper()
	ctx := t.Context()
	jobs, err := moved.Fetch(ctx, clienttest.Popped("ready", 100))
	check(t, err)
	for i, job := range jobs {
		if want := fmt.Sprintf("{same}%02d", i); job.ID != want {
			t.Fatalf("job %d is %s, want %s", i, job.ID, want)
		}
	}
	if job, err := moved.Get(ctx, "held"); err != nil || job.State != client.StateWaiting || job.Attempts != 1 || time.Until(job.Due) < time.Hour || !job.Followed {
		t.Errorf("the reserved one: %+v, %v", job, err)
	}
	if _, err := moved.Push(ctx, client.Message{ID: "counts once", Topic: "t", Body: "b"}, 0, client.IfExists(client.OnceAs(time.Hour, "another"))); !errors.Is(err, client.ErrReused) {
		t.Errorf("pushed once more: %v", err)
	}
	if r, err := moved.Push(ctx, client.Message{Topic: "grouped", Body: "3"}, 0, client.Group{Key: "key", Longest: time.Hour}); err != nil || r.Outcome != client.OutcomeAdded {
		t.Errorf("pushed to the group: %+v, %v", r, err)
	}
	if _, err := moved.Pop(ctx, "paused"); !errors.Is(err, client.ErrEmpty) {
		t.Errorf("of a paused topic: %v", err)
	}
	check(t, moved.Requeue(ctx, "dead"))
}

// A wrong line is refused with its number, and nothing of it is stored; the lines before it are.
func TestImportOfWrongRecords(t *testing.T) {
	s, db := newShellHere(t)
	const good = `{"kind":"ready","id":"good","fields":{"topic":"t","body":"b"}}` + "\n"
	for line, why := range map[string]string{
		`{"kind":"strange","id":"a"}`:                                                "kind: want waiting,",
		`{"kind":"waiting","id":"a","fields":{"topic":"t","body":"b"}}`:              "at: it is missing",
		`{"kind":"ready","id":"a","fields":{"body":"b"}}`:                            "fields: topic is missing",
		`{"kind":"ready","fields":{"topic":"t"}}`:                                    "id: it is empty",
		`{"kind":"ready","id":"a","field":{"topic":"t"}}`:                            "field: unknown",
		`{"kind":"ready","id":1}`:                                                    "id: want no number",
		`{"kind":"ready","at":"now","id":"a"}`:                                       "at: parsing time",
		"{\"kind\":\"ready\",\"id\":\"a\xff\"}":                                      "not UTF-8",
		`{"kind":"ready","id":"a","id":"b"}`:                                         "id: it is given twice",
		`{"kind":"ready","id":"a`:                                                    "incomplete",
		`{"kind":"ready","id":"a","fields":{"topic":"t"}} {}`:                        "after top-level value",
		`{"kind":"ready","id":"a","fields":{"topic":"t","body":{"base64":"nope!"}}}`: "base64",
		`{"kind":"limit","topic":"t"}`:                                               "a limit without",
		`{"kind":"pause"}`:                                                           "topic: it is missing",
	} {
		db.Do("FLUSHALL")
		check(t, os.WriteFile(s.dir+"/lines", []byte(good+line+"\n"), 0o600))
		r := s.run("import", "lines")
		if r.code != exit.Usage || !strings.Contains(r.stderr, "import: line 2: ") || !strings.Contains(r.stderr, why) {
			t.Errorf("%s: %+v, want %q", line, r, why)
		}
		db.Expect(redistest.State{Ready: map[string][]string{"t": {"good"}}, Buckets: map[string]string{"good": "t b"}})
	}
}

// A limit of fewer jobs than there are partitions is refused, and a dry run says so.
func TestImportOfASmallLimit(t *testing.T) {
	s, db := newShellHere(t)
	s = s.at("sixteen:", 16)
	check(t, os.WriteFile(s.dir+"/lines", []byte(`{"kind":"limit","topic":"t","concurrency":5}`+"\n"), 0o600))
	for _, args := range [][]string{{"import", "lines", "--dry-run"}, {"import", "lines"}} {
		if r := s.run(args...); r.code == 0 || !strings.Contains(r.stderr, `limit of topic "t": 5 is less than the 16 partitions`) {
			t.Errorf("%q: %+v", args, r)
		}
	}
	if limits := db.Strings("KEYS", "*limits"); len(limits) > 0 {
		t.Errorf("there are %q", limits)
	}
}

// Everything can be moved to a Redis Cluster, and back.
func TestMoveToACluster(t *testing.T) {
	redistest.Long(t)
	s, db := newShellHere(t)
	c := clienttest.On(db.Pool())
	defer c.Close()
	fillAll(t, c)
	cluster := redistest.StartCluster(t)
	there := s
	there.env = append(slices.Clone(s.env), "DELAYER_REDIS_CLUSTER="+strings.Join(cluster.Addrs(), ","), "DELAYER_REDIS_PARTITIONS=16")
	first := s.run("export").stdout
	for _, move := range []struct {
		lines string
		to    shell
	}{{first, there}, {"", s.at("back:", 1)}} {
		if move.lines == "" {
			move.lines = there.run("export").stdout
		}
		check(t, os.WriteFile(s.dir+"/lines", []byte(move.lines), 0o600))
		if r := move.to.run("import", "lines"); r.code != 0 {
			t.Fatalf("%+v", r)
		}
		if got, want := everythingIn(t, move.to.run("export").stdout), everythingIn(t, first); !slices.Equal(got, want) {
			t.Errorf("there are %d, want %d", len(got), len(want))
		}
	}
}
