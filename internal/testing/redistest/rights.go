package redistest

import (
	"errors"
	"io/fs"
	"os"
	"regexp"
	"testing"
)

// Rights returns the permissions of one or more ACL lines in docs/access.md, for SetUser: of the
// "daemon", the "producer", the "consumer", the "worker", the "operator" or the "sentinel".
func Rights(tb testing.TB, users ...string) (rights string) {
	tb.Helper()
	text, err := os.ReadFile("docs/access.md")
	for up := "../"; errors.Is(err, fs.ErrNotExist) && len(up) < 30; up += "../" { // tests run in their package's folder
		text, err = os.ReadFile(up + "docs/access.md")
	}
	Check(tb, err)
	for _, user := range users {
		line := regexp.MustCompile(`(?m)^ACL SETUSER delayer_` + user + ` +reset on >… (.*)$`).FindSubmatch(text)
		if line == nil {
			tb.Fatalf("docs/access.md has no ACL line for the %s", user)
		}
		rights += " " + string(line[1])
	}
	return rights
}
