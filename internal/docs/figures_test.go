package docs

import (
	"fmt"
	"math"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var namedRevision = regexp.MustCompile(`\brevision ([0-9a-f]{7,40})\b`)

// TestNamedRevisions checks that revisions named in documents are in the history, so that figures can be measured again.
func TestNamedRevisions(t *testing.T) {
	if out, err := exec.Command("git", "-C", project, "rev-parse", "--is-shallow-repository").Output(); err != nil || strings.TrimSpace(string(out)) != "false" {
		t.Skip("this is no clone with all of the history")
	}
	checked := map[string]bool{}
	for page, text := range pages(t) {
		for _, found := range namedRevision.FindAllStringSubmatch(text, -1) {
			revision := found[1]
			if !checked[revision] && exec.Command("git", "-C", project, "merge-base", "--is-ancestor", revision, "HEAD").Run() != nil {
				t.Errorf("%s names revision %s: it is not in the history", page, revision)
			}
			checked[revision] = true
		}
	}
	if len(checked) < 5 {
		t.Errorf("%d revisions are named", len(checked))
	}
}

// TestFiguresOfProse checks figures that sentences have from the benchmarks.
func TestFiguresOfProse(t *testing.T) {
	all := pages(t)
	cell := func(table, row, column string) float64 {
		return number(cellOf(all["bench/tables.md"], table, row, column))
	}
	memory := func(column string) float64 { return cell("Memory of a waiting job", "Delayer", column) }
	large, compact := memory("body of 97 bytes"), memory("97 bytes, hash-max-listpack-value 1024")
	more := func(callers string) []any {
		of := func(nodes int) float64 {
			return cell("Redis's CPU time per job, by partitions of a Redis Cluster with 16 partitions", fmt.Sprintf("Delayer, cluster of %d, %s", nodes, callers), "sum")
		}
		return []any{of(2) / of(1), of(3) / of(1)}
	}
	batches, single := more("1,000 jobs per call"), more("32 goroutines")
	aCore := func(caller, take string) string { // jobs a second
		const table = "Redis's CPU time per job, by partitions of one Redis"
		sum := 0.0
		for _, column := range append([]string{"push", "move"}, strings.Fields(take)...) {
			sum += cell(table, "Delayer, 1 partition, "+caller, column)
		}
		hundreds := int(math.Round(1e6 / sum / 100))
		return fmt.Sprintf("%d,%d00", hundreds/10, hundreds%10)
	}
	var core []string
	for _, caller := range []string{"32 goroutines", "1,000 jobs per call", "1 goroutine"} {
		core = append(core, fmt.Sprintf("| %s | %s |", aCore(caller, "take"), aCore(caller, "reserve ack")))
	}
	_, goal, _ := strings.Cut(all["bench/targets.md"], "| HTTP, memory for 5,000 waiting requests | ")
	_, measured, _ := strings.Cut(goal, " | ")
	waiting := number(measured) * 1e6 / 5000 / 1024
	for page, texts := range map[string][]string{
		"docs/install.md":       {fmt.Sprintf("%.0f bytes instead of %.0f, or %.0f %% less, with a body of 97", compact, large, 100*(1-compact/large)), core[0], core[1], core[2]},
		"bench/nodes.md":        {fmt.Sprintf("%.2f to %.2f times the CPU time per job of one node for batches", batches...), fmt.Sprintf("and %.2f to %.2f times for", single...)},
		"docs/http.md":          {fmt.Sprintf("about %.0f KB of memory each", waiting)},
		"docs/install.zh-CN.md": {fmt.Sprintf("从 %.0f 字节降到 %.0f 字节，减少 %.0f %%", large, compact, 100*(1-compact/large)), core[0], core[1], core[2]},
		"docs/http.zh-CN.md":    {fmt.Sprintf("每个约占 %.0f KB 内存", waiting)},
	} {
		for _, text := range texts {
			if !strings.Contains(all[page], text) {
				t.Errorf("%s does not say %q, as bench/tables.md does", page, text)
			}
		}
	}
}

// cellOf returns a cell of the table below a heading.
func cellOf(text, heading, row, column string) string {
	_, text, _ = strings.Cut(text, "\n### "+heading+"\n")
	at := -1
	for line := range strings.Lines(text) {
		cells := strings.Split(strings.TrimSpace(line), " | ")
		for i := range cells {
			cells[i] = strings.Trim(cells[i], "| ")
		}
		for i, cell := range cells {
			if at < 0 && i > 0 && cell == column {
				at = i
			}
		}
		if at >= 0 && cells[0] == row {
			return cells[at]
		}
		if strings.HasPrefix(line, "#") {
			break
		}
	}
	return ""
}

var numeral = regexp.MustCompile(`\d[\d,]*(\.\d+)?`)

// number returns the first number in a text.
func number(text string) float64 {
	n, err := strconv.ParseFloat(strings.ReplaceAll(numeral.FindString(text), ",", ""), 64)
	if err != nil {
		return math.NaN()
	}
	return n
}
