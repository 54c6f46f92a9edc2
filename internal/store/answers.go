package store

import (
	"errors"
	"regexp"
	"strings"

	"github.com/gomodule/redigo/redis"
)

// meaning is the meaning of a Redis error to a caller, whatever its wording.
type meaning int

const (
	otherMeaning  meaning = iota
	unknownScript         // send the text of the script
	noWrites              // a replica, or loading: the address may lead to a master by now
	elsewhere             // another node of the cluster has the key, or soon will, or none does now
	busy                  // a retry may help
	full                  // at maxmemory
	denied                // to every user, or by what this Redis is
	noPermission          // of this user
	twoSlots              // the keys are not in one slot
	wrongType             // of a key
)

// answer is the beginning of an error.
type answer struct {
	words  string
	means  meaning
	saidBy string // versions with these words, such as "Redis 7.2-, Valkey 8.0-8.1"
}

// answers is the only list of the errors of Redis and Valkey that matter here: an engine with other words needs another line. A line
// matches an error that begins with its words, after ERR and the text that Redis 6.2 puts in front of a script's error; * stands for a
// command.
//
// Errors inside scripts have other words, as Redis leaves out the codes there. TestAnswers provokes the errors on the running engine;
// TestAnswersInLua compares these words with those in the scripts.
var answers = []answer{
	{"NOSCRIPT", unknownScript, all},

	{"READONLY", noWrites, all},
	{"MASTERDOWN", noWrites, all},
	{"LOADING", noWrites, all},
	{"NOREPLICAS", noWrites, all},

	{"MOVED ", elsewhere, all},
	{"ASK ", elsewhere, all},
	{"TRYAGAIN", elsewhere, all},
	{"CLUSTERDOWN", elsewhere, all},
	{"Lua script attempted to access a non local key", elsewhere, "Redis 6.2"},
	{"Script attempted to access a non local key", elsewhere, "Redis 7.0-, Valkey 7.2-8.1"},
	{"Attempted to access a non local key", elsewhere, "Valkey 9.0-"},
	{"Unable to execute command '*' in script because undeclared keys were accessed during rehashing", elsewhere, "Redis 7.4-, Valkey 8.0-8.1"},
	{"Script attempted to access a slot not served", elsewhere, "Redis 7.4-, Valkey 8.0-8.1"},
	{"Lua script attempted to execute a command while the cluster is down", elsewhere, "Redis 6.2"},
	{"Lua script attempted to execute a write command while the cluster is down", elsewhere, "Redis 6.2"},
	{"Script attempted to execute a command while the cluster is down", elsewhere, "Redis 7.0-, Valkey 7.2-8.1"},
	{"Script attempted to execute a write command while the cluster is down", elsewhere, "Redis 7.0-, Valkey 7.2-8.1"},
	{"Can not execute a command '*' while the cluster is down", elsewhere, "Valkey 9.0-"},
	{"Can not execute a write command '*' while the cluster is down", elsewhere, "Valkey 9.0-"},

	{"BUSY ", busy, all},
	{"MISCONF", busy, all},
	{"max number of clients", busy, all},

	{"OOM", full, all},

	{"NOAUTH", denied, all},
	{"WRONGPASS", denied, all},
	{"AUTH <password> called without any password", denied, all},
	{"invalid password", denied, "Redis -5.0"},
	{"Client sent AUTH", denied, "Redis -5.0"},
	{"NOPERM", noPermission, all},
	{"The user executing the script", noPermission, "Redis 6.2-7.0"},
	{"ACL failure in script", noPermission, "Redis 7.2-, Valkey 7.2-"},
	{"DB index", denied, all},
	{"invalid DB", denied, all},
	{"unknown command", denied, all},
	{"Unknown Redis command", denied, "Redis 6.2-, Valkey 7.2"},
	{"Unknown command called from script", denied, "Valkey 8.0-"},

	{"CROSSSLOT", twoSlots, all},
	{"Command '*' in script attempted to access keys that don't hash to the same slot", twoSlots, "Redis 7.4-, Valkey 8.0-8.1"},
	{"Script attempted to access keys that do not hash to the same slot", twoSlots, "Redis 7.0-, Valkey 7.2-"},

	{"WRONGTYPE", wrongType, all},
}

const all = "Redis, Valkey"

// inScript is the text that Redis 6.2 puts in front of an error that ends a script; only the second part if the script returns a caught
// error.
var inScript = regexp.MustCompile(`^(ERR Error running script .*?: )?(@user_script: ?\d+: )*-?`)

// wordsOf returns the words of an error of Redis without the text in front of them, or "" for any other error.
func wordsOf(err error) string {
	var e redis.Error
	if err == nil || !errors.As(err, &e) { // nil is the usual case
		return ""
	}
	return strings.TrimPrefix(inScript.ReplaceAllLiteralString(string(e), ""), "ERR ")
}

// meaningOf returns the meaning of an error of Redis.
func meaningOf(err error) meaning {
	said := wordsOf(err)
	if said == "" {
		return otherMeaning
	}
	for _, a := range answers {
		if beginsWith(said, a.words) {
			return a.means
		}
	}
	return otherMeaning
}

// beginsWith reports whether an answer begins with the words.
func beginsWith(answer, words string) bool {
	before, behind, _ := strings.Cut(words, "*")
	rest, ok := strings.CutPrefix(answer, before)
	if !ok || behind == "" {
		return ok
	}
	name := strings.IndexByte(rest, behind[0])
	return name >= 0 && strings.HasPrefix(rest[name:], behind)
}
