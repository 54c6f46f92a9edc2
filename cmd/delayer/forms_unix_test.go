//go:build !windows

package main

import (
	"flag"
	"fmt"
	"html"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// inEachForm runs every command, in order, on one installation: its exit code, and words of its output.
var inEachForm = []struct {
	line    string
	code    int
	promise string
}{
	{"push mail 0 first --id {m}1", 0, "{m}1\n"},
	{"push mail 0 second --id {m}2", 0, "{m}2\n"},
	{"push mail 1h later --id o3", 0, "o3\n"},
	{"push mail 1h later --id {m}4 --once 1h", 0, "{m}4\n"},
	{"push batch 0 1 --group a --longest 1h", 0, "\n"},
	{"get {m}1", 0, "state:         ready\n"},
	{"list mail", 0, "\no3  "},
	{"list --state reserved", 0, "id  topic  due  lease_ends  attempts  size  preview\n"},
	{"pop mail", 0, "first\n"},
	{"bpop mail 5s --json", 0, `{"id":"{m}2","topic":"mail","body":"second"}`},
	{"reschedule o3 2h", 0, "rescheduled o3\n"},
	{"reschedule 3h --topic mail --match * --dry-run", 0, "would be rescheduled: 2\n"},
	{"export mail", 0, `{"id":"o3","topic":"mail","due":"`},
	{"remove o3", 0, "removed o3, which was waiting\n"},
	{"remove --topic mail --match *4 --confirm 3", 0, "removed 1\n"},
	{"forecast --json", 0, `{"spans":[{"from":0,"until":60,"jobs":0,`},
	{"pause mail --note moving", 0, "paused mail\n"},
	{"topics --paused", 0, ", note moving\n"},
	{"pop mail", 1, "paused"},
	{"resume mail", 0, "resumed mail\n"},
	{"limit mail --concurrency 2 --rate 100/s --tag m", 0, "mail: concurrency 2, rate 100/s, tag m"},
	{"topics --topic m*", 0, "\nmail   "},
	{"topics --limited", 0, "\nmail   "},
	{"limit mail --none", 0, "mail"},
	{"import jobs.json", 0, "pushed 2\n"}, // after the limit: the daemon reports ready jobs without its tag
	{"stats", 0, "topics:           "},
	{"stats mail --json", 0, `"ready":2`},
	{"purge mail --confirm 2", 0, "purged 2\n"},
	{"push broken 0 b --id {d}1", 0, "{d}1\n"},
	{"push broken 0 b --id {d}2", 0, "{d}2\n"},
	{"push broken 0 b --id d3", 0, "d3\n"},
	{"worker --topic broken --exec 'echo worked; echo oops >&2; exit 65'", 0, "worked\nworked\nworked\n"},
	{"dead list broken", 0, "oops"},
	{"dead groups broken", 0, "\n    3  "},
	{"dead requeue broken {d}1", 0, "requeued 1\n"},
	{"dead drop broken --match {d}* --confirm 2", 0, "dropped 1\n"},
	{"dead drop broken --confirm 1", 0, "dropped 1\n"},
	{"schedule set every @hourly mail hello --missed skip", 0, ":00:00"},
	{"schedule list", 0, "\nevery  "},
	{"schedule pause every", 0, "paused every\n"},
	{"schedule resume every", 0, "every"},
	{"schedule run every --json", 0, `"id":"`},
	{"schedule next @hourly", 0, ":00:00"},
	{"schedule remove every", 0, "removed every\n"},
	{"servers", 0, "1.2.0-dev  "},
	{"partitions", 0, "\n        0  "},
	{"config", 0, "redis.partitions "},
	{"fsck", 0, "nothing is wrong\n"},
	{"doctor --skip slow_commands --skip latency", 1, "persistence: "},
	{"nagios", 0, "DELAYER OK - "},
	{"help push", 0, "Usage: delayer push "},
	{"version", 0, "1.2.0-dev\n"},
	{"completion bash", 0, "complete "},
	{"man", 0, ".TH DELAYER 1 "},
	{"__complete sta", 0, "stats\t"},
}

// needsRedis matches the commands that do not work over HTTP.
var needsRedis = regexp.MustCompile(`^(pop|bpop|export|import|config|fsck|doctor|nagios) ?`)

// Each command works on one Redis, with Sentinel, with 16 partitions and in a Redis Cluster. Those that speak /v1 also work without Redis's
// address, over the daemon's HTTP server.
func TestEachCommandInEachForm(t *testing.T) {
	for name := range documented(t) {
		begins := func(line string) bool { return line == name || strings.HasPrefix(line, name+" ") }
		n := 0
		for _, row := range inEachForm {
			if begins(row.line) {
				n++
			}
		}
		if n == 0 {
			t.Errorf("no row for %s", name)
		}
	}
	for name, url := range map[string]func(t *testing.T) string{
		"one Redis": func(t *testing.T) string { return "redis://" + redistest.Start(t).Addr },
		"HTTP":      func(t *testing.T) string { return "redis://" + redistest.Start(t).Addr },
		"Sentinel": func(t *testing.T) string {
			return "redis-sentinel://" + strings.Join(redistest.StartSentinels(t).Addrs(), ",") + "?master=m"
		},
		"16 partitions": func(t *testing.T) string { return "redis://" + redistest.Start(t).Addr + "?partitions=16" },
		"a cluster": func(t *testing.T) string {
			return "redis-cluster://" + strings.Join(redistest.StartCluster(t).Addrs(), ",") + "?partitions=16"
		},
	} {
		t.Run(name, func(t *testing.T) {
			if name != "one Redis" && name != "HTTP" {
				redistest.Long(t)
			}
			const token = "0123456789abcdef"
			env := environment(t, "DELAYER_REDIS_URL="+url(t), "DELAYER_PID=", "DELAYER_ACCESS_LOG=", "DELAYER_ERROR_LOG=", "DELAYER_HTTP_LISTEN=127.0.0.1:0", "DELAYER_HTTP_TOKEN="+token)
			s := shell{t: t, dir: t.TempDir(), env: env}.inHere()
			write(t, s.dir+"/jobs.json", `{"topic":"mail","id":"{m}5","body":"b"}`+"\n"+`{"topic":"mail","id":"o6","body":"b"}`+"\n")
			daemon := startBinary(t, s.dir, env)
			over := s
			if at := urlOf(daemon); name == "HTTP" {
				over.env = environment(t, "DELAYER_URL="+at, "DELAYER_TOKEN="+token)
			}
			for _, row := range inEachForm {
				switch {
				case strings.HasPrefix(row.line, "worker "):
					s.works(row.line, row.promise)
				case needsRedis.MatchString(row.line):
					s.keeps(row.line, row.code, row.promise)
				default:
					over.keeps(row.line, row.code, row.promise)
				}
			}
			daemon.stopped()
			if text := daemon.stdout.String() + daemon.stderr.String(); strings.Contains(text, "[error]") {
				t.Errorf("the daemon reports:\n%s", text)
			}
		})
	}
}

// works runs a worker until it has printed the promise.
func (s shell) works(line, promise string) {
	s.t.Helper()
	p := startBinary(s.t, s.dir, s.env, shellWords(s.t, line)...)
	p.expect(p.stdout, promise)
	eventually(s.t, "the jobs are settled", func() bool {
		return strings.Contains(s.run("list", "--state", "reserved", "--json").stdout, `"jobs":[]`)
	})
	p.stopped()
}

var update = flag.Bool("update", false, "write testdata/commandlines.txt anew from what the program does now")

// The exit codes, standard outputs (1>) and standard errors (2>) of 200 command lines, run in order on one Redis. To add a line,
// write it into the file after "$ " and run the test with -update.
func TestCommandLines(t *testing.T) {
	file, err := filepath.Abs("testdata/commandlines.txt")
	check(t, err)
	s, _ := newShellHere(t)
	write(t, s.dir+"/good.conf", "[redis]\nport = 1\n")
	write(t, s.dir+"/bad.conf", "[redis]\nport = none\n")
	var got strings.Builder
	pages := map[string]string{} // help pages, by the line that prints them
	count := 0
	for line := range strings.Lines(read(t, file)) {
		switch {
		case line == "\n", strings.HasPrefix(line, "#"):
			got.WriteString(line)
		case strings.HasPrefix(line, "$ "):
			count++
			words := shellWords(t, line[2:])
			in := s
			if strings.HasPrefix(line, "$ env -i ") { // without the address of Redis
				words, in.env = words[2:], environment(t)
			}
			in.here = !background.MatchString(line)
			r := in.run(words[1:]...)
			fmt.Fprintf(&got, "%s%s%sexit %d\n", line, s.recorded("1> ", r.stdout, pages), s.recorded("2> ", r.stderr, pages), r.code)
			if _, known := pages[r.stdout]; !known && strings.Count(r.stdout, "\n") > 2 {
				pages[r.stdout] = strings.TrimSpace(line[2:])
			}
		}
	}
	if count < 200 {
		t.Errorf("%d command lines: want 200", count)
	}
	if *update {
		check(t, os.WriteFile(file, []byte(got.String()), 0o644))
	}
	want := strings.SplitAfter(read(t, file), "\n")
	for i, line := range strings.SplitAfter(got.String(), "\n") {
		if i >= len(want) || line != want[i] {
			t.Fatalf("%s:%d: got %q, want %q", file, i+1, line, strings.Join(want[i:min(i+1, len(want))], ""))
		}
	}
}

// recorded formats an output with the mark before each line. For a page that an earlier line printed, it names
// that line.
func (s shell) recorded(mark, output string, pages map[string]string) string {
	for page, line := range pages {
		if text, found := strings.CutSuffix(output, page); found {
			output = text + "(as: " + line + ")\n"
		}
	}
	output = strings.ReplaceAll(output, s.dir+"/", "")
	output = lookedFor.ReplaceAllString(output, "(looked for …)")
	text := ""
	for line := range strings.Lines(output) {
		text += strings.TrimSpace(mark+strings.TrimSuffix(line, "\n")) + "\n"
	}
	return text
}

// background matches lines of which some start the program anew.
var background = regexp.MustCompile(` --?d(aemon)?\b`)

var lookedFor = regexp.MustCompile(`\(looked for [^)]*\)`)

// With sentinels or a cluster, no configured address shows where Redis is: the banner and the dashboard show the servers that the
// daemon uses, and the current master.
func TestWhereRedisIs(t *testing.T) {
	redistest.Long(t)
	t.Parallel()
	master := redistest.Start(t)
	sentinel, away := redistest.StartSentinel(t, master, 1), redistest.Nobody(t)
	asked := "m, as sentinels " + away + ", " + sentinel.Addr + " say"
	cluster := redistest.StartCluster(t)
	nodes := strings.Join(cluster.Addrs(), ", ")
	for name, test := range map[string]struct {
		lines        []string
		banner, page string
	}{
		"sentinels": {
			[]string{"sentinel_master = m", "sentinels = " + away + ", " + sentinel.Addr},
			"Redis:\t\t" + asked + ": now at " + master.Addr + "\n",
			"Master m, found by sentinels " + away + ", " + sentinel.Addr + ": now at \u2068" + master.Addr + "\u2069",
		},
		"a cluster": {[]string{"partitions = 4", "cluster = " + nodes}, "Redis:\t\tcluster " + nodes + "\n", "Cluster, found through " + nodes},
		"no sentinel answers": {
			[]string{"sentinel_master = m", "sentinels = " + away}, "Redis:\t\tm, as sentinels " + away + " say\n", "",
		},
	} {
		s := newSite(t, redistest.Nobody(t), append(test.lines, "[http]", "listen = 127.0.0.1:0")...)
		p := s.start(t)
		url := urlOf(p)
		if banner := p.stdout.String(); !strings.Contains(banner, "\n"+test.banner) {
			t.Errorf("%s: %s, want %s", name, banner, test.banner)
		}
		if status, page := get(t, http.DefaultClient, url+"/"); !strings.Contains(html.UnescapeString(page), `<p id="where">`+test.page+`</p>`) && test.page != "" {
			t.Errorf("%s: the dashboard says %d, %s", name, status, page)
		}
	}
}
