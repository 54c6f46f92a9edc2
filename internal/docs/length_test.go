package docs

import (
	"strings"
	"testing"
)

// TestLength keeps the English documents short: what is added makes something else shorter. The changelog, decisions and generated pages
// do not count.
func TestLength(t *testing.T) {
	sum := 0
	for page, text := range pages(t) {
		if strings.HasSuffix(page, ".zh-CN.md") || strings.HasPrefix(page, "docs/adr/") || strings.HasPrefix(page, "docs/benchmark") || page == "CHANGELOG.md" {
			continue
		}
		n := len(strings.Fields(text))
		sum += n
		if page == "README.md" && (n < 600 || n > 800) || page == "docs/guarantees.md" && n > 3500 {
			t.Errorf("%s has %d words", page, n)
		}
	}
	if sum > 49_000 {
		t.Errorf("the English documents have %d words, want at most 49,000", sum)
	}
}
