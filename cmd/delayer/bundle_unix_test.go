//go:build !windows

package main

import (
	"archive/zip"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// unzipped returns the files of a bundle.
func unzipped(tb testing.TB, path string) map[string]string {
	tb.Helper()
	z, err := zip.OpenReader(path)
	check(tb, err)
	defer z.Close()
	files := map[string]string{}
	for _, f := range z.File {
		r, err := f.Open()
		check(tb, err)
		text, err := io.ReadAll(r)
		check(tb, err)
		files[strings.TrimPrefix(f.Name, "delayer-bundle/")] = string(text)
	}
	return files
}

const canary = "canary" // part of every secret, body and ID of the tests below

// plantCanaries puts bodies and IDs wherever Redis keeps them and reports about them.
func plantCanaries(db *redistest.Server) {
	now := time.Now()
	db.Do("CONFIG", "SET", "slowlog-log-slower-than", 0)
	db.Do("CLIENT", "SETNAME", "canary-name")
	func() { db.Conn().Do("EVAL", "return redis.error_reply('CANARY no')", 0) }()
	for i, id := range []string{"canary-1", "canary", "a canary 2", `ca"nary canary`, "order:canary:7", "{canary}3"} {
		db.Do("HSET", "delayer:job_bucket:"+id, "topic", "mail", "body", "canary body", "error", "canary error")
		db.Do("ZADD", "delayer:job_pool", now.Add(-time.Minute).Unix(), id)
		db.Do("ZADD", "delayer:job_pool", 1, fmt.Sprint("orphan-", id, i))
		db.Do("HSET", "delayer:dead_letter:d"+id, "topic", "mail", "body", "canary", "error", "canary", "attempts", 3)
		db.Do("ZADD", "delayer:dead_letters:mail", now.UnixMilli(), "d"+id)
	}
	db.Do("ZADD", "delayer:dead_topics", now.UnixMilli(), "mail")
	db.Do("ZADD", "delayer:topics", now.Unix(), "mail", now.Unix(), "late")
	db.Do("HSET", "delayer:paused", "late", fmt.Sprint(now.UnixMilli(), " 0 0 0 waits for canary 1001"))
	db.Do("SET", "delayer:ready_queue:broken", "canary")
	db.Do("HSET", "delayer:job_bucket:canary-b", "topic", "broken", "body", "canary")
	db.Do("ZADD", "delayer:job_pool", now.Add(-time.Minute).Unix(), "canary-b")
	db.Do("HSET", "delayer:servers", "a:1:x", fmt.Sprintf(`{"now":%d,"started":%[1]d,"interval":1000,"host":"a","pid":1,"version":"1","error":"job \"canary one\": key delayer:job_bucket:canary-9 at redis://u:canary@h","lateness":[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0]}`, now.UnixMilli()))
	db.Do("EVAL", "return redis.pcall('SET', 'canary', redis.error_reply('CANARY no').err)", 0)
	db.Do("SET", "canarykey", "canary value")
	db.Do("CONFIG", "SET", "slowlog-log-slower-than", 1_000_000_000) // keeps what was planted: a bundle has only the last commands
}

// foreignLines are lines that other programs, or another version, may have written into a log.
const foreignLines = `[error] 2026/11/26 04:24:24 Schedule "canary" can't be read: WRONGTYPE at delayer:job_bucket:canary-1 (canary_7f3a, https://canary:canary@h/canary?token=canary)
[error] 2026/11/26 04:24:25 HTTP server: a request failed: get "a canary: the key "canary
[info] 2026/11/26 04:24:26 Job is ready, Topic: canary-2, IDs: [canary,a], "canary]
{"time":"2026-11-26T04:24:24.123Z","level":"error","message":"Job \"canary\" is lost","topic":"canary-2","ids":["canary"],"error":"canary"}
{"password":"canary"}
goroutine 1 [running]: canary
canary
`

// No secret, body or ID is in any file of a bundle, wherever they were; with --with-bodies no secret is.
func TestBundleLeavesOut(t *testing.T) {
	for _, format := range []string{"text", "json"} {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			db := redistest.Start(t, "--slowlog-max-len", "1000000") // the daemon writes into it, too
			db.Do("ACL", "SETUSER", "u", "on", ">canary-password-0", "~*", "&*", "+@all")
			s := newSite(t, db.Addr, "username = u", "password = canary-password-0", "pasword = canary-password-0",
				"[http]", "listen = 127.0.0.1:0", "token = canary-token-0123456789", "users = alice:canary-password-1", "[schedule every]", "cron = @hourly", "topic = mail", "body = canary")
			s.change(t, "[delayer]\n", "[delayer]\nlog_format = "+format+"\n")
			write(t, s.access, foreignLines)
			write(t, s.errors, foreignLines)
			plantCanaries(db)
			daemon := s.started(t)
			eventually(t, "the jobs are moved, and the broken queue is reported", func() bool {
				return strings.Contains(read(t, s.access), "order:canary:7") && strings.Contains(read(t, s.errors), "broken")
			})
			plantCanaries(db) // some while the daemon runs
			env := environment(t)
			r := runBinary(t, s.dir, env, "bundle", "-c", s.conf, "masked.zip")
			if r.code != 0 || strings.Contains(r.stdout, "not read") {
				t.Errorf("%+v", r)
			}
			checkMasked(t, unzipped(t, s.dir+"/masked.zip"))
			r = runBinary(t, s.dir, env, "bundle", "--with-bodies", "-c", s.conf, "whole.zip")
			whole := unzipped(t, s.dir+"/whole.zip")
			if r.code != 0 {
				t.Errorf("%+v", r)
			}
			slowlog := "redis/" + strings.ReplaceAll(db.Addr, ":", "_") + ".slowlog.txt"
			for name, text := range whole {
				if strings.Contains(text, "canary-password") || strings.Contains(text, "canary-token") || strings.Contains(text, "u:canary@") {
					t.Errorf("--with-bodies: %s has a secret:\n%s", name, text)
				}
			}
			for name, want := range map[string]string{"logs/access.log": "order:canary:7", "logs/error.log": "broken", "topics.json": "waits for canary 1001", slowlog: "canary value"} {
				if !strings.Contains(whole[name], want) {
					t.Errorf("--with-bodies: %s has no %q:\n%s", name, want, whole[name])
				}
			}
			daemon.stopped()
		})
	}
}

// checkMasked fails if a file of a bundle has a canary, or lacks what helps.
func checkMasked(t *testing.T, files map[string]string) {
	t.Helper()
	for name, text := range files {
		for line := range strings.Lines(name + "\n" + text) {
			if strings.Contains(strings.ToLower(line), canary) {
				t.Errorf("%s: %s", name, line)
			}
		}
	}
	for name, words := range map[string][]string{
		"doctor.txt":       {"dead_letters: topic \"mail\": dead letters 6", "servers:", "paused:"},
		"topics.json":      {`"topic": "mail"`, `"since"`},
		"stats.json":       {`"waiting"`, `"version"`},
		"servers.json":     {`"host"`, `"silent"`},
		"config.json":      {`"(secret)"`, "redis.port"},
		"partitions.json":  {`"partition": 0`},
		"logs/access.log":  {"Job is ready", "mail"},
		"logs/error.log":   {"WRONGTYPE", "lines of another format, left out: 3"},
		"README.txt":       {version},
		"redis/127.0.0.1_": {"redis_version:", "connected_clients:", "errorstat_", " EVAL", " SET"},
	} {
		text := ""
		for file, content := range files {
			if strings.HasPrefix(file, name) {
				text += content
			}
		}
		for _, word := range words {
			if !strings.Contains(text, word) {
				t.Errorf("%s has no %q:\n%s", name, word, text)
			}
		}
	}
}

// A bundle is a new file for its owner only. Nothing is left of one that could not be written.
func TestBundleFile(t *testing.T) {
	t.Parallel()
	s, _ := newShell(t)
	r := s.run("bundle", "b.zip", "--json")
	var said struct {
		File  string   `json:"file"`
		Bytes int64    `json:"bytes"`
		Not   []string `json:"not_read"`
	}
	check(t, json.Unmarshal([]byte(r.stdout), &said))
	info, err := os.Stat(s.dir + "/b.zip")
	check(t, err)
	if r.code != 0 || info.Mode() != 0o600 || said.File != "b.zip" || said.Bytes != info.Size() || !slices.Equal(said.Not, []string{"logs/access.log", "logs/error.log"}) {
		t.Errorf("%+v, %v, %+v", r, info.Mode(), said)
	}
	check(t, os.Symlink("nowhere", s.dir+"/link.zip"))
	s.expect(2, "", "ERROR: bundle: b.zip exists: want the name of a new file\n", "bundle", "b.zip")
	s.expect(2, "", "ERROR: bundle: link.zip exists: want the name of a new file\n", "bundle", "link.zip")
	s.keeps("bundle none/b.zip", 2, "no such file")
	full := startBinary(t, s.dir, s.env, "bundle", "c.zip")
	full.cmd.Process.Signal(syscall.SIGINT)
	full.wait()
	left, err := filepath.Glob(s.dir + "/.delayer*")
	if more, _ := filepath.Glob(s.dir + "/*"); err != nil || len(left) > 0 || len(more) > 3 {
		t.Errorf("left: %q, %q", left, more)
	}
}

// Without Redis a bundle has the doctor's failure, its checks of files, the configuration and the logs. A Redis that hangs costs
// a few seconds.
func TestBundleWithoutRedis(t *testing.T) {
	t.Parallel()
	db := redistest.Start(t)
	s := newSite(t, db.Addr)
	write(t, s.access, "[info] 2026/11/26 04:24:24 Service started successfully, PID: 4711\n")
	write(t, s.errors, "")
	check(t, os.Chmod(s.conf, 0o644))
	s.change(t, "[redis]\n", "[redis]\npassword = secret\nread_timeout = 60000\n")
	db.Do("CONFIG", "SET", "requirepass", "secret")
	look := func(name, doctor string) {
		t.Helper()
		began := time.Now()
		r := runBinary(t, s.dir, environment(t), "bundle", "-c", s.conf, name)
		if r.code != 0 || time.Since(began) > 2*partWait+redistest.HangBound/3 || !strings.Contains(r.stdout, "stats") {
			t.Errorf("%v: %+v", time.Since(began), r)
		}
		files := unzipped(t, filepath.Join(s.dir, name))
		for file, want := range map[string]string{"doctor.txt": doctor, "config.json": "redis.port", "logs/access.log": "PID: 4711", "README.txt": "not or not wholly read: stats"} {
			if !strings.Contains(files[file], want) {
				t.Errorf("%s has no %q: %s", file, want, files[file])
			}
		}
	}
	if !testing.Short() { // takes 5 s
		db.Hang()
		look("hangs.zip", "secret_files")
		db.Continue()
	}
	db.Kill()
	look("away.zip", "the examination ended early: cannot connect to Redis at 127.0.0.1:")
}

// A user of few rights gets what it may read, and the names of the rest.
func TestBundleOfFewRights(t *testing.T) {
	t.Parallel()
	db := redistest.Start(t)
	db.SetUser(redistest.Rights(t, "producer"))
	s := shell{t: t, dir: t.TempDir(), env: environment(t, "DELAYER_REDIS_URL=redis://u:p@"+db.Addr)}
	r := s.run("bundle", "b.zip")
	files := unzipped(t, s.dir+"/b.zip")
	name := "redis/" + strings.ReplaceAll(db.Addr, ":", "_")
	if r.code != 0 || !strings.Contains(r.stdout, name+".info.txt, "+name+".slowlog.txt") {
		t.Errorf("%+v", r)
	}
	if readme := files["README.txt"]; !strings.Contains(readme, "Redis refuses: NOPERM ") || !strings.Contains(readme, " has no permissions to run the info command") || files["doctor.txt"] == "" || files["config.json"] == "" {
		t.Errorf("%q", files)
	}
	db.SetUser(redistest.Rights(t, "daemon", "operator", "doctor"))
	s.keeps("bundle c.zip", 0, "read: logs/access.log, logs/error.log;")
}

// A bundle has the INFO of masters, replicas and sentinels.
func TestBundleOfManyServers(t *testing.T) {
	redistest.Long(t)
	t.Parallel()
	reads := func(t *testing.T, env string, servers, sentinels []*redistest.Server) {
		s := shell{t: t, dir: t.TempDir(), env: environment(t, env)}
		s.expect(0, "1\n", "", "push", "t", "0", "b", "--id", "1") // stores the number of partitions
		s.keeps("bundle b.zip", 0, "")
		files := unzipped(t, s.dir+"/b.zip")
		infos := 0
		for name := range files {
			if strings.HasSuffix(name, ".info.txt") {
				infos++
			}
		}
		for _, server := range slices.Concat(servers, sentinels) {
			name := "redis/" + strings.ReplaceAll(server.Addr, ":", "_")
			_, port, _ := strings.Cut(server.Addr, ":")
			_, slow := files[name+".slowlog.txt"]
			if !strings.Contains(files[name+".info.txt"], "tcp_port:"+port) || slow != slices.Contains(servers, server) {
				t.Errorf("%s is missing: %q, %s", server.Addr, slices.Sorted(maps.Keys(files)), files["README.txt"])
			}
		}
		if infos != len(servers)+len(sentinels) {
			t.Errorf("%d servers, want %d", infos, len(servers)+len(sentinels))
		}
	}
	t.Run("sentinels", func(t *testing.T) {
		t.Parallel()
		s := redistest.StartSentinels(t)
		reads(t, "DELAYER_REDIS_URL=redis-sentinel://"+s.Addrs()+"?master=m", s.Servers, s.Sentinels)
	})
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		c := redistest.StartCluster(t)
		reads(t, "DELAYER_REDIS_URL=redis-cluster://localhost:"+strings.Split(c.Servers[0].Addr, ":")[1]+"?partitions=4", c.Servers, nil)
	})
}
