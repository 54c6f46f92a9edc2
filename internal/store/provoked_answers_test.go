package store

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// provoker makes a Redis and a cluster answer with errors.
type provoker struct {
	redis   *redistest.Server
	cluster *redistest.Cluster
	engine  engine
	met     map[string]bool // words
}

func (p *provoker) expect(t *testing.T, means meaning, _ any, err error) {
	t.Helper()
	words := wordsOf(err)
	i := slices.IndexFunc(answers, func(a answer) bool { return beginsWith(words, a.words) })
	switch {
	case words == "":
		t.Errorf("got %v, want an answer that is an error", err)
	case i < 0 || answers[i].means != means:
		t.Errorf("%q means %d, want %d", err, meaningOf(err), means)
	case !p.engine.says(answers[i].saidBy):
		t.Errorf("%s says %q, but the table has it that %s do", p.engine, err, answers[i].saidBy)
	default:
		p.met[answers[i].words] = true
	}
}

func (p *provoker) in(conn redis.Conn, command string, args ...any) func(t *testing.T, means meaning) {
	return func(t *testing.T, means meaning) {
		t.Helper()
		reply, err := conn.Do(command, args...)
		p.expect(t, means, reply, err)
	}
}

// both makes Redis refuse a command alone and in a script, whose error may have other words.
func (p *provoker) both(t *testing.T, conn redis.Conn, means meaning, args ...any) {
	t.Helper()
	p.in(conn, args[0].(string), args[1:]...)(t, means)
	for _, call := range []string{"call", "pcall"} {
		script := fmt.Sprintf("return redis.%s(unpack(ARGV))", call)
		p.in(conn, "EVAL", append([]any{script, 0}, args...)...)(t, means)
	}
}

func (p *provoker) dial(t *testing.T, s *redistest.Server, options ...redis.DialOption) redis.Conn {
	conn, err := redis.Dial("tcp", s.Addr, options...)
	check(t, err)
	t.Cleanup(func() { conn.Close() })
	return conn
}

func (p *provoker) scripts(t *testing.T) {
	s := p.redis
	p.in(s.Conn(), "EVALSHA", strings.Repeat("0", 40), 0)(t, unknownScript)
	p.in(s.Conn(), "NOSUCH")(t, denied)
	p.in(s.Conn(), "EVAL", "return redis.call('NOSUCH')", 0)(t, denied)
	s.Do("SET", "text", "x")
	p.both(t, s.Conn(), wrongType, "LPUSH", "text", "x")
}

func (p *provoker) users(t *testing.T) {
	s := p.redis
	s.SetUser("~mine &mine +@all -time -acl")
	u := p.dial(t, s, redis.DialUsername("u"), redis.DialPassword("p"))
	p.both(t, u, noPermission, "TIME")
	p.both(t, u, noPermission, "SET", "theirs", "x")
	p.both(t, u, noPermission, "RENAME", "mine", "theirs")
	p.both(t, u, noPermission, "PUBLISH", "theirs", "x")
	p.in(u, "ACL", "WHOAMI")(t, noPermission)
	p.in(u, "SELECT", 99)(t, denied)
	p.in(u, "AUTH", "nobody", "x")(t, denied)
	p.in(u, "AUTH", "x")(t, denied)
	s.Do("CONFIG", "SET", "requirepass", "x")
	p.in(p.dial(t, s), "GET", "mine")(t, denied)
	p.in(p.dial(t, s), "AUTH", "y")(t, denied)
	s.Do("CONFIG", "SET", "requirepass", "")
}

func (p *provoker) full(t *testing.T) {
	s := p.redis
	s.Do("CONFIG", "SET", "maxmemory", 1)
	p.both(t, s.Conn(), full, "SET", "k", "x")
	s.Do("CONFIG", "SET", "maxmemory", 0)
}

func (p *provoker) manyClients(t *testing.T) {
	s := p.redis
	s.Do("CONFIG", "SET", "maxclients", 1)
	conn, err := redis.Dial("tcp", s.Addr)
	if err == nil {
		defer conn.Close()
		p.in(conn, "PING")(t, busy)
	}
	s.Do("CONFIG", "SET", "maxclients", 40)
}

func (p *provoker) busy(t *testing.T) {
	s := p.redis
	s.Do("CONFIG", "SET", "lua-time-limit", 1)
	endless, other := p.dial(t, s), p.dial(t, s)
	check(t, endless.Send("EVAL", "while true do end", 0))
	check(t, endless.Flush())
	redistest.Until(t, "it is busy", func() bool { _, err := other.Do("PING"); return err != nil })
	p.in(other, "PING")(t, busy)
	other.Do("SCRIPT", "KILL")
	endless.Receive()
}

func (p *provoker) noDisk(t *testing.T) {
	s := p.redis
	s.Do("CONFIG", "SET", "save", "3600 1")
	s.Do("CONFIG", "SET", "dbfilename", "dump.rdb")
	check(t, os.RemoveAll(s.Dir))
	s.Do("BGSAVE")
	redistest.Until(t, "it could not save", func() bool {
		text, _ := redis.String(s.Do("INFO", "persistence"), nil)
		return strings.Contains(text, "rdb_last_bgsave_status:err")
	})
	p.both(t, s.Conn(), busy, "SET", "k", "x")
	s.Do("CONFIG", "SET", "save", "")
}

func (p *provoker) replicas(t *testing.T) {
	s := p.redis
	s.Do("CONFIG", "SET", "min-replicas-to-write", 1)
	p.both(t, s.Conn(), noWrites, "SET", "k", "x")
	s.Do("CONFIG", "SET", "min-replicas-to-write", 0)
	s.Do("REPLICAOF", "127.0.0.1", "1")
	p.both(t, s.Conn(), noWrites, "SET", "k", "x")
	s.Do("CONFIG", "SET", "replica-serve-stale-data", "no")
	p.in(s.Conn(), "GET", "k")(t, noWrites)
	s.Do("REPLICAOF", "NO", "ONE")
}

func (p *provoker) loading(t *testing.T) {
	l := redistest.Start(t, "--enable-debug-command", "local", "--key-load-delay", "100000", "--save", "", "--loading-process-events-interval-bytes", "1024")
	other := p.dial(t, l)
	l.Do("DEBUG", "POPULATE", 1000, "key", 100)
	conn := p.dial(t, l)
	check(t, conn.Send("DEBUG", "RELOAD"))
	check(t, conn.Flush())
	redistest.Until(t, "it loads", func() bool { _, err := other.Do("GET", "key:1"); return err != nil })
	p.in(other, "GET", "key:1")(t, noWrites)
	other.Do("CONFIG", "SET", "key-load-delay", 0)
}

func (p *provoker) slots(t *testing.T) {
	c := p.cluster
	slot := c.Slot("{t}")
	from := c.Owner(slot)
	others := slices.DeleteFunc(slices.Clone(c.Servers[:3]), func(s *redistest.Server) bool { return s == from })
	p.in(others[0].Conn(), "GET", "{t}a")(t, elsewhere)
	elsewhereKey := "0"
	for n := 1; c.Owner(c.Slot(elsewhereKey)) == from; n++ {
		elsewhereKey = strconv.Itoa(n)
	}
	p.in(from.Conn(), "MGET", "{t}a", elsewhereKey)(t, twoSlots)
	script := func(command string, args ...any) []any {
		return append([]any{"return redis." + command + "(unpack(ARGV))", 1, "{t}here"}, args...)
	}
	from.Do("SET", "{t}here", "x")
	from.Do("SET", "{t}gone", "x")
	m := c.BeginMove(slot, others[0])
	m.Key("{t}gone")
	p.in(from.Conn(), "GET", "{t}gone")(t, elsewhere)               // ASK
	p.in(from.Conn(), "RENAME", "{t}here", "{t}gone")(t, elsewhere) // TRYAGAIN
	p.in(from.Conn(), "GET", elsewhereKey)(t, elsewhere)            // MOVED
	for _, call := range []string{"call", "pcall"} {
		p.in(from.Conn(), "EVAL", script(call, "EXISTS", "{t}gone")...)(t, elsewhere)
		p.in(from.Conn(), "EVAL", script(call, "RENAME", "{t}here", "{t}gone")...)(t, elsewhere)
		p.in(from.Conn(), "EVAL", script(call, "EXISTS", elsewhereKey)...)(t, elsewhere)
		means := elsewhere // for other versions
		if p.engine.says("Redis 7.4-, Valkey 8.0-8.1") {
			means = twoSlots
		}
		p.in(from.Conn(), "EVAL", script(call, "MGET", "{t}here", elsewhereKey)...)(t, means)
	}
	m.Keys(100)
	m.End()
	others[0].Do("CLUSTER", "DELSLOTS", slot)
	others[0].Do("CONFIG", "SET", "cluster-require-full-coverage", "no")
	p.in(others[0].Conn(), "GET", "{t}here")(t, elsewhere) // CLUSTERDOWN
}

// TestAnswers provokes each answer that the table lists for this engine. Each error must have the meaning in the table, and its line must
// include the engine's version.
func TestAnswers(t *testing.T) {
	redistest.Long(t)
	t.Parallel()
	s := redistest.Start(t, "--maxclients", "40", "--enable-protected-configs", "yes", "--enable-debug-command", "local")
	p := &provoker{s, redistest.StartCluster(t), engineOf(s), map[string]bool{}}
	t.Run("scripts", p.scripts)
	t.Run("users", p.users)
	t.Run("full", p.full)
	t.Run("many clients", p.manyClients)
	t.Run("busy", p.busy)
	t.Run("no disk", p.noDisk)
	t.Run("replicas", p.replicas)
	t.Run("loading", p.loading)
	t.Run("slots", p.slots)
	if t.Failed() {
		return
	}
	for _, a := range answers {
		if p.engine.says(a.saidBy) && !p.met[a.words] && !slices.Contains(notProvoked, a.words) {
			t.Errorf("nothing has provoked %q, which %s says as the table has it", a.words, p.engine)
		}
	}
}
