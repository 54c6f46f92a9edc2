// Package pushrule says which parts of a push go together. The client, the command line and the HTTP API check the same rules,
// each with its own names for the parts.
package pushrule

import (
	"fmt"
	"time"

	"github.com/mix-basic/delayer/internal/duration"
)

// excludes are parts that do not go together; the first one is to blame. They are named as /v1 names them. A push has delay or due. It
// has once, debounce, or a choice of if_exists, of which follow is one. A group has none of these but once.
var excludes = [][2]string{
	{"due", "delay"},
	{"if_exists", "once"}, {"debounce", "once"}, {"debounce", "if_exists"},
	{"delay", "group"}, {"due", "group"}, {"if_exists", "group"}, {"debounce", "group"},
}

// needs are parts that mean nothing without another.
var needs = [][2]string{
	{"once", "id"}, {"debounce", "id"}, {"follow", "id"},
	{"group_max", "group"}, {"group_quiet", "group"}, {"group_longest", "group"},
	{"replicas_timeout", "replicas"},
}

// Check returns the part that breaks a rule, and why, or empty texts. has reports whether a part is given; name is what it is called in why.
func Check(has func(part string) bool, name func(part string) string) (part, why string) {
	for _, pair := range excludes {
		if has(pair[0]) && has(pair[1]) {
			return pair[0], fmt.Sprintf("it does not go together with %s: want one of the two", name(pair[1]))
		}
	}
	for _, pair := range needs {
		if has(pair[0]) && !has(pair[1]) {
			return pair[0], fmt.Sprintf("it means nothing without %s", name(pair[1]))
		}
	}
	switch {
	case has("group") && has("id") && !has("once"):
		return "id", fmt.Sprintf("with %s it means nothing without %s", name("group"), name("once"))
	case has("group") && !has("group_quiet") && !has("group_longest"):
		return "group", fmt.Sprintf("%s and %s are missing: want one of the two, or both", name("group_quiet"), name("group_longest"))
	}
	return "", ""
}

// Debounce returns why a push with that delay can't be debounced for at most longest, or an empty text.
func Debounce(longest, delay time.Duration) (why string) {
	if delay <= longest {
		return ""
	}
	return fmt.Sprintf("%s is shorter than the delay of %s", duration.Format(longest), duration.Format(delay))
}
