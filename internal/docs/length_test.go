package docs

import (
	"strings"
	"testing"
)

// budgets are the words that each English document for users may have; a page without a budget may have 1,400. What is added to a page makes
// something else on it shorter.
var budgets = map[string]int{
	"README.md":           900,
	"docs/commands.md":    4_000,
	"docs/go.md":          2_400,
	"docs/guarantees.md":  3_100,
	"docs/http.md":        3_000,
	"docs/metrics.md":     1_800,
	"docs/migrating.md":   1_700,
	"docs/runbook.md":     2_900,
	"docs/tutorial.md":    2_500,
	"docs/wire-format.md": 2_400,
}

// TestLength keeps the documents for users short, each of them and all together.
func TestLength(t *testing.T) {
	sum := 0
	for page, text := range pages(t) {
		if strings.HasSuffix(page, ".zh-CN.md") || page != "README.md" && (!strings.HasPrefix(page, "docs/") || strings.HasPrefix(page, "docs/adr/")) {
			continue
		}
		n, budget := len(strings.Fields(text)), budgets[page]
		if budget == 0 {
			budget = 1_400
		}
		if n > budget {
			t.Errorf("%s has %d words, want at most %d", page, n, budget)
		}
		sum += n
	}
	if sum > 34_500 {
		t.Errorf("the documents for users have %d words, want at most 34,500", sum)
	}
}
