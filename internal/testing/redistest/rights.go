package redistest

import (
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"testing"
)

// Rights returns the permissions of one or more ACL lines in docs/operating.md, for SetUser: of the
// "daemon", the "producer", the "consumer", the "worker", the "operator" or the "sentinel".
func Rights(tb testing.TB, users ...string) (rights string) {
	tb.Helper()
	_, here, _, _ := runtime.Caller(0)
	text, err := os.ReadFile(filepath.Join(filepath.Dir(here), "../../../docs/operating.md"))
	Check(tb, err)
	for _, user := range users {
		line := regexp.MustCompile(`(?m)^ACL SETUSER delayer_` + user + ` +reset on >… (.*)$`).FindSubmatch(text)
		if line == nil {
			tb.Fatalf("docs/operating.md has no ACL line for the %s", user)
		}
		rights += " " + string(line[1])
	}
	return rights
}
