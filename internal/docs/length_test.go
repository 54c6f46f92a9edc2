package docs

import (
	"path"
	"strings"
	"testing"
)

// budgets are the words that each English document for users may have; a page without a budget may have 1,400. What is added to a page makes
// something else on it shorter. Names are without the folder.
var budgets = map[string]int{
	"README.md":      800,
	"commands.md":    3_550,
	"go.md":          2_100,
	"guarantees.md":  2_950,
	"http.md":        3_200,
	"metrics.md":     1_750,
	"migrating.md":   1_600,
	"runbook.md":     2_550,
	"tutorial.md":    2_500,
	"wire-format.md": 2_350,
}

// TestLength keeps each document for users short.
func TestLength(t *testing.T) {
	for page, text := range pages(t) {
		if strings.HasSuffix(page, ".zh-CN.md") || page != "README.md" && (!strings.HasPrefix(page, "docs/") || strings.HasPrefix(page, "docs/adr/")) {
			continue
		}
		n, budget := len(strings.Fields(text)), budgets[path.Base(page)]
		if budget == 0 {
			budget = 1_400
		}
		if n > budget {
			t.Errorf("%s has %d words, want at most %d", page, n, budget)
		}
	}
}
