package store

import (
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// engine is a kind of server and its version, such as 700 for 7.0.
type engine struct {
	name    string
	version int
}

func (e engine) String() string { return fmt.Sprintf("%s %d.%d", e.name, e.version/100, e.version%100) }

func engineOf(s *redistest.Server) engine {
	info, _ := redis.String(s.Do("INFO", "server"), nil)
	for _, name := range []string{"Valkey", "Redis"} { // Valkey also reports a compatible Redis version
		if found := regexp.MustCompile(strings.ToLower(name) + `_version:(\d+\.\d+)`).FindStringSubmatch(info); found != nil {
			return engine{name, versionOf(found[1])}
		}
	}
	s.TB.Fatalf("it does not tell its version: %s", info)
	return engine{}
}

func versionOf(text string) int {
	major, minor, _ := strings.Cut(text, ".")
	a, _ := strconv.Atoi(major)
	b, _ := strconv.Atoi(minor)
	return 100*a + b
}

// says reports whether versions, such as "Redis 7.4-, Valkey 8.0-8.1", include the engine.
func (e engine) says(versions string) bool {
	for part := range strings.SplitSeq(versions, ", ") {
		name, numbers, limited := strings.Cut(part, " ")
		from, to, isRange := strings.Cut(numbers, "-")
		switch {
		case name != e.name:
		case !limited:
			return true
		case !isRange:
			return e.version == versionOf(from)
		default:
			return e.version >= versionOf(from) && (to == "" || e.version <= versionOf(to))
		}
	}
	return false
}

// notProvoked lists errors that this test cannot provoke: their state can't begin while a script runs, or a node of the cluster would
// have to be down. They come from the sources of Redis.
var notProvoked = []string{
	"invalid DB",
	"Script attempted to access a slot not served",
	"Script attempted to execute a command while the cluster is down",
	"Script attempted to execute a write command while the cluster is down",
	"Can not execute a command '*' while the cluster is down",
	"Can not execute a write command '*' while the cluster is down",
	"Script attempted to access keys that do not hash to the same slot",
}

// TestAnswersInLua compares the words by which scripts recognize errors with the table: they match every answer with that meaning and no
// other.
func TestAnswersInLua(t *testing.T) {
	means := map[string]meaning{
		"OOM ": full, "WRONGTYPE": wrongType, "non local key": elsewhere, "READONLY": noWrites, "NOREPLICAS": noWrites, "MASTERDOWN": noWrites,
	}
	// others are answers that refuse a call itself, not a command of its script, and answers that only commands on several keys get.
	others := append([]string{"LOADING", "MOVED ", "ASK ", "TRYAGAIN", "CLUSTERDOWN"}, notProvoked...)
	found := map[string]bool{}
	sources := os.DirFS("lua")
	check(t, fs.WalkDir(sources, ".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".lua") || strings.HasPrefix(path, "gen/") {
			return err
		}
		text, err := fs.ReadFile(sources, path)
		for _, m := range regexp.MustCompile(`string\.find\([\w.]+\.err, ('[^']*'|reason), 1, true\)`).FindAllSubmatch(text, -1) {
			words := []string{strings.Trim(string(m[1]), "'")}
			if words[0] == "reason" {
				list := regexp.MustCompile(`for _, reason in ipairs\(\{(.*)\}\)`).FindSubmatch(text)
				words = strings.Split(strings.ReplaceAll(string(list[1]), "'", ""), ", ")
			}
			for _, word := range words {
				found[word] = true
			}
		}
		return err
	}))
	for word := range found {
		if means[word] == otherMeaning {
			t.Errorf("a script looks for %q, which this test does not know", word)
		}
	}
	for _, a := range answers {
		known := slices.Contains(others, a.words) || strings.Contains(a.words, "*") || strings.HasPrefix(a.words, "Lua script attempted to execute")
		for word, meaning := range means {
			has := strings.Contains(a.words+" ", word)
			if !found[word] || has && a.means != meaning {
				t.Errorf("%q means %d in a script, where %q means %d", word, meaning, a.words, a.means)
			}
			known = known || has
		}
		if !known && slices.Contains([]meaning{full, wrongType, elsewhere, noWrites}, a.means) {
			t.Errorf("no script knows %q", a.words)
		}
	}
}

// TestAnswers provokes each answer that the table lists for this engine. Each error must have the meaning in the table, and its line must
// include the engine's version.
func TestAnswers(t *testing.T) {
	redistest.Long(t)
	t.Parallel()
	s := redistest.Start(t, "--maxclients", "40", "--enable-protected-configs", "yes", "--enable-debug-command", "local")
	c := redistest.StartCluster(t)
	engine := engineOf(s)
	met := map[string]bool{} // words
	expect := func(t *testing.T, means meaning, _ any, err error) {
		t.Helper()
		words := wordsOf(err)
		i := slices.IndexFunc(answers, func(a answer) bool { return beginsWith(words, a.words) })
		switch {
		case words == "":
			t.Errorf("got %v, want an answer that is an error", err)
		case i < 0 || answers[i].means != means:
			t.Errorf("%q means %d, want %d", err, meaningOf(err), means)
		case !engine.says(answers[i].saidBy):
			t.Errorf("%s says %q, but the table has it that %s do", engine, err, answers[i].saidBy)
		default:
			met[answers[i].words] = true
		}
	}
	in := func(conn redis.Conn, command string, args ...any) func(t *testing.T, means meaning) {
		return func(t *testing.T, means meaning) {
			t.Helper()
			reply, err := conn.Do(command, args...)
			expect(t, means, reply, err)
		}
	}
	// both makes Redis refuse a command alone and in a script, whose error may have other words.
	both := func(t *testing.T, conn redis.Conn, means meaning, args ...any) {
		t.Helper()
		in(conn, args[0].(string), args[1:]...)(t, means)
		for _, call := range []string{"call", "pcall"} {
			script := fmt.Sprintf("return redis.%s(unpack(ARGV))", call)
			in(conn, "EVAL", append([]any{script, 0}, args...)...)(t, means)
		}
	}
	dial := func(s *redistest.Server, options ...redis.DialOption) redis.Conn {
		conn, err := redis.Dial("tcp", s.Addr, options...)
		check(t, err)
		t.Cleanup(func() { conn.Close() })
		return conn
	}

	t.Run("scripts", func(t *testing.T) {
		in(s.Conn(), "EVALSHA", strings.Repeat("0", 40), 0)(t, unknownScript)
		in(s.Conn(), "NOSUCH")(t, denied)
		in(s.Conn(), "EVAL", "return redis.call('NOSUCH')", 0)(t, denied)
		s.Do("SET", "text", "x")
		both(t, s.Conn(), wrongType, "LPUSH", "text", "x")
	})
	t.Run("users", func(t *testing.T) {
		s.SetUser("~mine &mine +@all -time -acl")
		u := dial(s, redis.DialUsername("u"), redis.DialPassword("p"))
		both(t, u, noPermission, "TIME")
		both(t, u, noPermission, "SET", "theirs", "x")
		both(t, u, noPermission, "RENAME", "mine", "theirs")
		both(t, u, noPermission, "PUBLISH", "theirs", "x")
		in(u, "ACL", "WHOAMI")(t, noPermission)
		in(u, "SELECT", 99)(t, denied)
		in(u, "AUTH", "nobody", "x")(t, denied)
		in(u, "AUTH", "x")(t, denied)
		s.Do("CONFIG", "SET", "requirepass", "x")
		in(dial(s), "GET", "mine")(t, denied)
		in(dial(s), "AUTH", "y")(t, denied)
		s.Do("CONFIG", "SET", "requirepass", "")
	})
	t.Run("full", func(t *testing.T) {
		s.Do("CONFIG", "SET", "maxmemory", 1)
		both(t, s.Conn(), full, "SET", "k", "x")
		s.Do("CONFIG", "SET", "maxmemory", 0)
	})
	t.Run("many clients", func(t *testing.T) {
		s.Do("CONFIG", "SET", "maxclients", 1)
		conn, err := redis.Dial("tcp", s.Addr)
		if err == nil {
			defer conn.Close()
			in(conn, "PING")(t, busy)
		}
		s.Do("CONFIG", "SET", "maxclients", 40)
	})
	t.Run("busy", func(t *testing.T) {
		s.Do("CONFIG", "SET", "lua-time-limit", 1)
		endless, other := dial(s), dial(s)
		check(t, endless.Send("EVAL", "while true do end", 0))
		check(t, endless.Flush())
		redistest.Until(t, "it is busy", func() bool { _, err := other.Do("PING"); return err != nil })
		in(other, "PING")(t, busy)
		other.Do("SCRIPT", "KILL")
		endless.Receive()
	})
	t.Run("no disk", func(t *testing.T) {
		s.Do("CONFIG", "SET", "save", "3600 1")
		s.Do("CONFIG", "SET", "dbfilename", "dump.rdb")
		check(t, os.RemoveAll(s.Dir))
		s.Do("BGSAVE")
		redistest.Until(t, "it could not save", func() bool {
			text, _ := redis.String(s.Do("INFO", "persistence"), nil)
			return strings.Contains(text, "rdb_last_bgsave_status:err")
		})
		both(t, s.Conn(), busy, "SET", "k", "x")
		s.Do("CONFIG", "SET", "save", "")
	})
	t.Run("replicas", func(t *testing.T) {
		s.Do("CONFIG", "SET", "min-replicas-to-write", 1)
		both(t, s.Conn(), noWrites, "SET", "k", "x")
		s.Do("CONFIG", "SET", "min-replicas-to-write", 0)
		s.Do("REPLICAOF", "127.0.0.1", "1")
		both(t, s.Conn(), noWrites, "SET", "k", "x")
		s.Do("CONFIG", "SET", "replica-serve-stale-data", "no")
		in(s.Conn(), "GET", "k")(t, noWrites)
		s.Do("REPLICAOF", "NO", "ONE")
	})
	t.Run("loading", func(t *testing.T) {
		l := redistest.Start(t, "--enable-debug-command", "local", "--key-load-delay", "100000", "--save", "", "--loading-process-events-interval-bytes", "1024")
		other := dial(l)
		l.Do("DEBUG", "POPULATE", 1000, "key", 100)
		conn := dial(l)
		check(t, conn.Send("DEBUG", "RELOAD"))
		check(t, conn.Flush())
		redistest.Until(t, "it loads", func() bool { _, err := other.Do("GET", "key:1"); return err != nil })
		in(other, "GET", "key:1")(t, noWrites)
		other.Do("CONFIG", "SET", "key-load-delay", 0)
	})
	t.Run("slots", func(t *testing.T) {
		slot := c.Slot("{t}")
		from := c.Owner(slot)
		others := slices.DeleteFunc(slices.Clone(c.Servers[:3]), func(s *redistest.Server) bool { return s == from })
		in(others[0].Conn(), "GET", "{t}a")(t, elsewhere)
		elsewhereKey := "0"
		for n := 1; c.Owner(c.Slot(elsewhereKey)) == from; n++ {
			elsewhereKey = strconv.Itoa(n)
		}
		in(from.Conn(), "MGET", "{t}a", elsewhereKey)(t, twoSlots)
		script := func(command string, args ...any) []any {
			return append([]any{"return redis." + command + "(unpack(ARGV))", 1, "{t}here"}, args...)
		}
		from.Do("SET", "{t}here", "x")
		from.Do("SET", "{t}gone", "x")
		m := c.BeginMove(slot, others[0])
		m.Key("{t}gone")
		in(from.Conn(), "GET", "{t}gone")(t, elsewhere)               // ASK
		in(from.Conn(), "RENAME", "{t}here", "{t}gone")(t, elsewhere) // TRYAGAIN
		in(from.Conn(), "GET", elsewhereKey)(t, elsewhere)            // MOVED
		for _, call := range []string{"call", "pcall"} {
			in(from.Conn(), "EVAL", script(call, "EXISTS", "{t}gone")...)(t, elsewhere)
			in(from.Conn(), "EVAL", script(call, "RENAME", "{t}here", "{t}gone")...)(t, elsewhere)
			in(from.Conn(), "EVAL", script(call, "EXISTS", elsewhereKey)...)(t, elsewhere)
			means := elsewhere // for other versions
			if engine.says("Redis 7.4-, Valkey 8.0-8.1") {
				means = twoSlots
			}
			in(from.Conn(), "EVAL", script(call, "MGET", "{t}here", elsewhereKey)...)(t, means)
		}
		m.Keys(100)
		m.End()
		others[0].Do("CLUSTER", "DELSLOTS", slot)
		others[0].Do("CONFIG", "SET", "cluster-require-full-coverage", "no")
		in(others[0].Conn(), "GET", "{t}here")(t, elsewhere) // CLUSTERDOWN
	})
	if t.Failed() {
		return
	}
	for _, a := range answers {
		if engine.says(a.saidBy) && !met[a.words] && !slices.Contains(notProvoked, a.words) {
			t.Errorf("nothing has provoked %q, which %s says as the table has it", a.words, engine)
		}
	}
}
