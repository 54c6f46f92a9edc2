package docs

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

var quoted = regexp.MustCompile(`"([^"\n]+)"`)

// TestNamedMessages checks that messages which the chapter about troubleshooting quotes are in the code.
func TestNamedMessages(t *testing.T) {
	var sources strings.Builder
	for _, pattern := range []string{"server/*.go", "internal/daemon/*.go", "internal/cli/*.go", "internal/fleet/*.go", "internal/store/*.go"} {
		for _, file := range glob(t, pattern) {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			text, err := os.ReadFile(file)
			must(t, err)
			sources.Write(text)
		}
	}
	for _, page := range []string{"docs/runbook.md", "docs/runbook.zh-CN.md"} {
		_, chapter, _ := strings.Cut(pages(t)[page], "`delayer get ID`")
		found := quoted.FindAllStringSubmatch(chapter, -1)
		if len(found) < 8 {
			t.Errorf("%s quotes %d messages", page, len(found))
		}
		for _, message := range found {
			if !strings.Contains(sources.String(), message[1]) {
				t.Errorf("%s quotes %q: the code does not say that", page, message[1])
			}
		}
	}
}
