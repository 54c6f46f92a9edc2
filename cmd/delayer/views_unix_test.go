//go:build !windows

package main

import (
	"errors"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/exit"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// inLayouts runs a test of operators' commands in each layout, and gives it the layout's URL.
func inLayouts(t *testing.T, test func(s shell, url string)) {
	for name, url := range map[string]func(t *testing.T) string{
		"one Redis":     func(t *testing.T) string { return "redis://" + redistest.Start(t).Addr },
		"16 partitions": func(t *testing.T) string { return "redis://" + redistest.Start(t).Addr + "?partitions=16" },
		"a cluster": func(t *testing.T) string {
			redistest.Long(t)
			return "redis-cluster://" + strings.Join(redistest.StartCluster(t).Addrs(), ",") + "?partitions=4"
		},
	} {
		t.Run(name, func(t *testing.T) {
			url := url(t)
			test(shell{t: t, dir: t.TempDir(), env: environment(t, "DELAYER_REDIS_URL="+url)}.inHere(), url)
		})
	}
}

var (
	anyTimes  = regexp.MustCompile(`\d{4}/\d\d/\d\d \d\d:\d\d:\d\d\.\d{3}`)
	jsonTimes = regexp.MustCompile(`"\d{4}-\d\d-\d\dT[^"]*Z"`)
	ages      = regexp.MustCompile(`( +)(\d+d)?(\d+h)?(\d+m)?[\d.]+m?s\b`)
	jsonAges  = regexp.MustCompile(`("overdue(_at_least)?"|"ttl"):[\d.e-]+`)
)

// shownBy runs a command and returns its output with times replaced: a time by TIME of the same width, a duration
// by AGE.
func (s shell) shownBy(code int, args ...string) string {
	s.t.Helper()
	r := s.run(args...)
	if r.code != code {
		s.t.Errorf("delayer %q: %+v, want code %d", args, r, code)
	}
	text := anyTimes.ReplaceAllString(r.stdout+r.stderr, "TIME                   ")
	text = ages.ReplaceAllString(jsonTimes.ReplaceAllString(text, `"TIME"`), " AGE")
	return jsonAges.ReplaceAllString(text, "$1:0")
}

// says compares a command's output with the lines, ignoring trailing blanks.
func (s shell) says(code int, command string, want string) {
	s.t.Helper()
	trim := regexp.MustCompile(`(?m) +$`)
	if got := trim.ReplaceAllString(s.shownBy(code, shellWords(s.t, command)...), ""); got != strings.TrimPrefix(want, "\n") {
		s.t.Errorf("delayer %s:\n%swant\n%s", command, got, want)
	}
}

// Operators' commands print the same on a single Redis, with 16 partitions, and in a cluster.
func TestOperatorsCommands(t *testing.T) {
	inLayouts(t, operate)
}

func operate(s shell, _ string) {
	s.says(0, "topics", "topic  ready  reserved  dead  throttled  overdue  limit  paused\n")
	s.says(0, "topics --json", `{"topics":[]}`+"\n")
	s.says(0, "list none", "id  state  due  lease_ends  attempts  size  preview\n")
	s.says(0, "servers --json", `{"servers":[]}`+"\n")

	for _, id := range []string{"{m}1", "{m}2"} { // in one partition, for a certain order
		s.says(0, "push mail 0 body"+id+" --id "+id, id+"\n")
	}
	s.says(0, "push mail 1h later --id {m}3 --max-attempts 3 --lease 40s", "{m}3\n")
	s.says(0, "push order 58s '{\"a\":1}' --id o1", "o1\n")
	s.says(0, "limit mail --concurrency 1 --tag m", "mail: concurrency 1, tag m; slots taken 0, throttled 0\n")
	s.says(0, "pause order --note 'moving'", "paused order\n")

	s.says(0, "topics", `
topic  ready  reserved  dead  throttled  overdue  limit                 paused
mail       2         0     0          0 AGE  concurrency 1, tag m  -
order      0         0     0          - AGE  -                     since TIME                   , note moving
`)
	s.says(0, "topics --topic 'o*r'", `
topic  ready  reserved  dead  throttled  overdue  limit  paused
order      0         0     0          - AGE      -  since TIME                   , note moving
`)
	s.says(0, "topics --sort topic --json --topic order", `{"topics":[{"topic":"order","ready":0,"reserved":0,"dead":0,"overdue":0,"overdue_at_least":0,"paused":{"since":"TIME","note":"moving"}}]}`+"\n")
	s.says(0, "topics --limited", `
topic  limit                 slots_taken  throttled  throttled_until  untagged
mail   concurrency 1, tag m            0          0                -         0
`)
	s.says(0, "list mail", `
id    state    due                      lease_ends  attempts  size  preview
{m}1  ready    -                                 -         0     8  body{m}1
{m}2  ready    -                                 -         0     8  body{m}2
{m}3  waiting  TIME                              -         0     5  later
`)
	s.says(0, "list mail --match '{m}?' --limit 1 --state ready --json", `{"jobs":[{"id":"{m}1","topic":"mail","state":"ready","attempts":0,"size":8,"preview":"body{m}1"}]}`+"\n")
	s.says(0, "forecast", `
from  until  jobs  estimated
 AGE     1m     1  false
  1m     1h     1  false
  1h    24h     0  false
 24h     7d     0  false
`)
	s.says(0, "forecast --spans 1m,2h --json", `{"spans":[{"from":0,"until":60,"jobs":1,"estimated":false},{"from":60,"until":7200,"jobs":1,"estimated":false}]}`+"\n")
	s.says(0, "stats mail", `
topic  waiting  ready  reserved  dead  throttled  overdue  paused
mail         1      2         0     0          0 AGE       -
`)
	s.says(0, "get {m}3", `
id:            {m}3
topic:         mail
state:         waiting
due:           TIME
ttl: AGE
attempts:      0
max_attempts:  3
body:          later
`)

	const exported = `{"id":"{m}1","topic":"mail","body":"body{m}1"}
{"id":"{m}2","topic":"mail","body":"body{m}2"}
{"id":"{m}3","topic":"mail","due":"TIME","max_attempts":3,"lease":40,"body":"later"}
`
	s.says(0, "export mail", exported)
	file := s.dir + "/jobs.json"
	write(s.t, file, s.run("export", "mail").stdout)
	s.says(2, "purge mail", "ERROR: purge: jobs that it would change: 2; add --confirm 2, or --dry-run to change nothing\n")
	s.says(6, "purge mail --confirm 1", "ERROR: purge: jobs that it would change: 2, more than the 1 of --confirm; nothing was changed\n")
	s.says(0, "purge mail --dry-run --json", `{"count":2,"complete":true,"dry_run":true}`+"\n")
	s.says(0, "export mail", exported)
	s.says(0, "purge mail --confirm 2", "purged 2\n")
	s.says(0, "reschedule '{m}3' 2h", "rescheduled {m}3\n")
	s.says(1, "reschedule none 2h", `reschedule "none": no such job`+"\n")
	s.says(0, "import "+file, "pushed 3\n")
	s.says(0, "export mail", exported)
	write(s.t, file, `{"topic":"mail","id":"{m}1","body":"b","if_exists":"refuse"}`+"\n\n"+`{"topic":"other","id":"x","body_base64":"/w=="}`+"\n"+`{"topic":"other"}`+"\n")
	s.says(2, "import "+file, "Note: 1 were not pushed, as jobs of their IDs exist\nERROR: import: line 4: body: it is missing\nERROR: the jobs before are pushed: 1\n")
	s.says(0, "export other", `{"id":"x","topic":"other","body_base64":"/w=="}`+"\n")

	s.says(2, "remove --topic mail --match '*2'", "ERROR: remove: jobs that it would change: 1; add --confirm 1, or --dry-run to change nothing\n")
	s.says(0, "remove --topic mail --match '*2' --confirm 5 --json", `{"count":1,"complete":true}`+"\n")
	s.says(0, "reschedule 0 --topic mail --match '{m}*' --state waiting --dry-run", "would be rescheduled: 1\n")
	s.says(0, "reschedule 0 --topic mail --match '{m}*' --state waiting --confirm 1", "rescheduled 1\n")
	s.says(0, "list mail --state ready", `
id    state  due  lease_ends  attempts  size  preview
{m}1  ready    -           -         0     8  body{m}1
{m}3  ready    -           -         0     5  later
`)
}

// Reserved jobs and dead letters look the same, too.
func TestOperatorsCommandsOnJobsUnderWay(t *testing.T) {
	inLayouts(t, func(s shell, url string) {
		t := s.t
		c, err := client.Open(url)
		check(t, err)
		defer c.Close()
		for _, id := range []string{"{m}1", "{m}2", "{m}3", "{m}4"} {
			_, err := c.Push(t.Context(), client.Message{ID: id, Topic: "mail", Body: "b"}, 0, client.JobOptions{MaxAttempts: 1})
			check(t, err)
			d, err := c.Reserve(t.Context(), time.Hour, "mail")
			check(t, err)
			if id != "{m}4" {
				if err := d.Retry(t.Context(), 0, errors.New("error "+id[3:])); !errors.Is(err, client.ErrExhausted) {
					t.Fatal(err)
				}
			}
		}
		s.says(0, "list --state reserved", "id    topic  due  lease_ends               attempts  size  preview\n{m}4  mail     -  TIME                            1     1  b\n")
		s.says(0, "list other --state reserved", "id  state  due  lease_ends  attempts  size  preview\n")
		s.says(0, "dead groups mail", "count  newest                   oldest                   reason                    error\n    3  TIME                     TIME                     the only attempt used up  error 3\n")
		s.says(0, "dead list mail --error 2 --newer 1h", "id    died                     attempts  reason                    error\n{m}2  TIME                            1  the only attempt used up  error 2\n")
		s.says(0, "dead list mail --older 1h", "id  died  attempts  reason  error\n")
		s.says(0, "dead requeue mail --match '*[12]' --dry-run", "would be requeued: 0\n")
		s.says(0, "dead drop mail --limit 1 --dry-run --json", `{"count":1,"complete":true,"dry_run":true}`+"\n")
		s.says(6, "dead drop mail --confirm 2", "ERROR: dead drop: jobs that it would change: 3, more than the 2 of --confirm; nothing was changed\n")
		s.says(0, "dead drop mail --limit 1 --confirm 1", "dropped 1\n") // drops the oldest
		s.says(0, "dead requeue mail --error 2 --confirm 1", "requeued 1\n")
		s.says(0, "dead requeue mail --error none", "requeued 0\n")
		s.says(0, "list mail --state ready", "id    state  due  lease_ends  attempts  size  preview\n{m}2  ready    -           -         0     1  b\n")
		s.says(0, "dead drop mail --confirm 1", "dropped 1\n")
	})
}

// The documented permissions of operators suffice.
func TestOperatorsDocumentedRights(t *testing.T) {
	db := redistest.Start(t)
	db.SetUser(redistest.Rights(t, "operator"))
	s := shell{t: t, dir: t.TempDir(), env: environment(t, "DELAYER_REDIS_URL=redis://u:p@"+db.Addr)}.inHere()
	db.Do("HSET", "delayer:job_bucket:w", "topic", "t", "body", "b")
	db.Do("ZADD", "delayer:job_pool", 9e9, "w")
	db.Do("ZADD", "delayer:topics", db.Clock(), "t")
	for _, command := range []string{
		"stats", "stats t", "topics", "topics --limited", "topics --paused", "servers", "partitions", "list --state reserved", "list t", "forecast", "schedule list", "dead list t", "dead groups t",
		"dead drop t --dry-run", "purge t --dry-run", "remove --topic t --match '*' --dry-run", "get w", "export t",
	} {
		if r := s.run(shellWords(t, command)...); r.code != 0 || r.stderr != "" {
			t.Errorf("%s: %+v", command, r)
		}
	}
	expectNothingRefused(t, db)
}

// Jobs are imported from standard input. A line that is no job ends the import.
func TestImportFromStandardInput(t *testing.T) {
	t.Parallel()
	s, db := newShell(t)
	for input, want := range map[string]string{
		strings.Repeat(`{"topic":"t","body":"b"}`+"\n", 2500): "pushed 2500\n",
		" \t\r\n\n": "pushed 0\n",
		`{"topic":"t","body":"` + strings.Repeat("x", 1<<20) + `"}`: "pushed 1\n",
		`{"topic":"t"` + "\n": "ERROR: import: line 1: the body is not JSON: it is empty or incomplete\n",
	} {
		cmd := exec.Command(binary, "import")
		cmd.Env, cmd.Dir, cmd.Stdin = s.env, s.dir, strings.NewReader(input)
		if out, _ := cmd.CombinedOutput(); string(out) != want {
			t.Errorf("%.40q: %s, want %s", input, out, want)
		}
	}
	if n := len(db.Queue("t")); n != 2501 {
		t.Errorf("%d jobs are ready", n)
	}
	// A client of the original can push a job for the year 9999.
	db.Do("HSET", "delayer:job_bucket:far", "topic", "far", "body", "b")
	db.Do("ZADD", "delayer:job_pool", 253402300799, "far")
	write(t, s.dir+"/far.json", s.run("export", "far").stdout)
	s.says(0, "import "+s.dir+"/far.json", "pushed 1\n")
}

// config names the source of each setting, and no secret.
func TestConfigCommand(t *testing.T) {
	s := shell{t: t, dir: t.TempDir(), env: environment(t, "DELAYER_HTTP_TOKEN=0123456789abcdef0123", "DELAYER_REDIS_PORT=7")}.inHere()
	write(t, s.dir+"/my.conf", "[redis]\npassword = hush\nprefix = shop:\n")
	show := func(args ...string) string {
		return s.run(append([]string{"config", "-c", "my.conf"}, args...)...).stdout
	}
	for _, c := range []struct {
		args []string
		want []string
	}{
		{nil, []string{
			`redis\.prefix +shop: +my\.conf:3`, `redis\.password +\(secret\) +my\.conf:2`, `redis\.port +7 +DELAYER_REDIS_PORT`,
			`redis\.host +127\.0\.0\.1 +default`, `http\.token +\(secret\) +DELAYER_HTTP_TOKEN`,
		}},
		{[]string{"--redis", "rediss://u:pw@there:8/2"}, []string{
			`redis\.host +there +--redis`, `redis\.port +8 +--redis`, `redis\.tls +true +--redis`, `redis\.username +u +--redis`, `redis\.prefix +shop: +my\.conf:3`,
		}},
		{[]string{"--json"}, []string{`\{"setting":"redis\.prefix","value":"shop:","from":"my\.conf:3"\}`}},
	} {
		got := show(c.args...)
		for _, want := range c.want {
			if !regexp.MustCompile(want).MatchString(got) || strings.Contains(got, "hush") || strings.Contains(got, "0123456789") || strings.Contains(got, "pw") {
				t.Errorf("%q: no %s in %s", c.args, want, got)
			}
		}
	}
}

// With --watch, stats are printed repeatedly; on a terminal in place.
func TestWatchStats(t *testing.T) {
	t.Parallel()
	s, _ := newShell(t)
	p := startBinary(t, s.dir, s.env, "stats", "--watch", "50ms", "--json")
	redistest.Until(t, "stats are printed twice", func() bool { return strings.Count(p.stdout.String(), "\n") >= 2 })
	p.cmd.Process.Signal(syscall.SIGTERM)
	p.ends(exit.Interrupted)
}

// --quiet hides the note about the Redis in use. push has its own --quiet.
func TestQuiet(t *testing.T) {
	s := shell{t: t, dir: t.TempDir(), env: environment(t)}.inHere()
	for _, args := range [][]string{{"topics", "--quiet"}, {"--quiet", "topics"}, {"--quiet", "push", "t", "0", "b"}} {
		if r := s.run(args...); strings.Contains(r.stderr, "no configuration file found") {
			t.Errorf("%q: %+v", args, r)
		}
	}
	if r := s.run("topics"); !strings.Contains(r.stderr, "no configuration file found") {
		t.Errorf("%+v", r)
	}
}

// Many jobs are removed in few calls.
func TestRemoveManyInFewCalls(t *testing.T) {
	t.Parallel()
	s, db := newShell(t)
	db.Do("EVAL", `for i = 1, 1000 do
		redis.call('HSET', 'delayer:job_bucket:' .. i, 'id', i, 'topic', 't', 'body', 'b')
		redis.call('ZADD', 'delayer:job_pool', 4e9, i)
	end`, 0)
	db.Do("CONFIG", "RESETSTAT")
	s.says(0, "remove --topic t --match * --confirm 1000", "removed 1000\n")
	stats, err := redis.String(db.Do("INFO", "commandstats"), nil)
	check(t, err)
	found := regexp.MustCompile(`cmdstat_evalsha:calls=(\d+),`).FindStringSubmatch(stats)
	if found == nil || len(found[1]) > 2 {
		t.Errorf("it made %q calls of scripts", found)
	}
}
