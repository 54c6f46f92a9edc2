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
