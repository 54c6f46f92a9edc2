package main

import (
	"encoding/xml"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func sampleReport() *Report {
	return &Report{
		Machine:  []string{"a machine"},
		Versions: []string{"Redis 7"},
		Sections: []Section{{
			Name: "push", Title: "Push", Mode: "full", Revision: "abc1234", Load: "1.5", Measured: time.Unix(0, 0),
			Tables: []Table{
				{
					ID: "push", Title: "Push, one job per call", Unit: "jobs/s",
					Columns: []Column{{Name: "1"}, {Name: "8", Digits: 1}},
					Rows:    Rows{{"ours", []Sample{{1000, 3000, 2000}, {5}}}, {"theirs", []Sample{{7}}}},
				},
				{
					ID: "growth", Title: "Growth", Unit: "jobs/s", Head: "waiting",
					Columns: []Column{{Name: "10"}, {Name: "1,000"}},
					Rows:    Rows{{"ours", []Sample{{10}, {9}}}, {"unmeasured", nil}},
				},
			},
			Targets: []Target{
				{Name: "fast", Limit: 2.5, Unit: "×", Got: Sample{2, 3, 4}},
				{Name: "on time", AtMost: true, Limit: 5, Unit: " ms", Got: Sample{4, 6, 7}},
				{Name: "never early", AtMost: true, Worst: true, Got: Sample{0, 1, 0}},
				{Name: "unknown", Limit: 1, Unit: "×"},
			},
			Notes: []string{"something was left out"},
		}},
	}
}

func TestTables(t *testing.T) {
	text := sampleReport().pages()["bench/tables.md"]
	for _, want := range []string{
		"| ours | 2,000 (1,000–3,000) | 5.0 |\n",
		"| theirs | 7 | – |\n",
		"- something was left out\n",
		"full sizes, revision abc1234, 1970-01-01 00:00 UTC, load 1.5, took",
		"## Push\n\nJobs with a delay of one hour",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("there is no %q in\n%s", want, text)
		}
	}
}

// A run of one workload keeps the results of the others, and sections stay in the order of the workloads.
func TestSaveKeepsTheOtherWorkloads(t *testing.T) {
	folder := t.TempDir()
	sampleReport().save(folder)
	report := readReport(folder)
	report.add(Section{Name: "take", Title: "Take"}, []string{"take", "push"})
	report.save(folder)
	text, _ := os.ReadFile(filepath.Join(folder, "bench", "tables.md"))
	take, push := strings.Index(string(text), "## Take\n"), strings.Index(string(text), "## Push\n")
	if take < 0 || push < take {
		t.Errorf("Take is at %d, Push at %d", take, push)
	}
}

// The first page has the medians of its queues, the page on speed the targets, missed ones first.
func TestSummary(t *testing.T) {
	report := sampleReport()
	report.Sections[0].Tables[0].Columns[1].Name = "32 goroutines"
	report.Sections[0].Tables[0].Rows = Rows{{"Delayer", []Sample{nil, {9000}}}, {"original (MULTI)", []Sample{nil, {4000, 5000, 6000}}}, {"asynq", []Sample{nil, {3}}}}
	pages := report.pages()
	for page, texts := range map[string][]string{
		"docs/benchmarks.md":       {"| Delayer | 9,000 | – |", "| original | 5,000 | – |", "| asynq | 3 | – |", "- a machine\n- Redis 7\n"},
		"docs/benchmarks.zh-CN.md": {"| Delayer | 9,000 | – |"},
		"bench/targets.md": {"meets 1 of its 4 targets", "| on time | ≤ 5.00 ms | 6.00 ms | 4.00–7.00 | **missed** |\n" +
			"| never early | ≤ 0.00 | 1.00 | 0.00–1.00 | **missed** |\n" +
			"| unknown | ≥ 1.00× | – | – | not measured |\n" +
			"| fast | ≥ 2.50× | 3.00× | 2.00–4.00 | met |\n"},
		"bench/targets.zh-CN.md": {"4 个目标达到 1 个"},
	} {
		for _, want := range texts {
			if !strings.Contains(pages[page], want) {
				t.Errorf("there is no %q in %s:\n%s", want, page, pages[page])
			}
		}
	}
}

// Every workload has its text, and no text is of a workload that is gone.
func TestTexts(t *testing.T) {
	var titles []string
	for line := range strings.Lines(string(must(pageFiles.ReadFile("pages/workloads.md")))) {
		if title, is := strings.CutPrefix(line, "## "); is {
			titles = append(titles, strings.TrimSpace(title))
		}
	}
	if !slices.Equal(titles, names()) {
		t.Errorf("workloads.md has\n%q, want\n%q", titles, names())
	}
	for _, name := range names() {
		if about(name) == "" {
			t.Errorf("%s has no text", name)
		}
	}
}

func TestCharts(t *testing.T) {
	none := math.NaN()
	for want, c := range map[string]chart{
		`<rect x="127.5" y="235.0" width="276.0" height="175.0"`: {groups: []string{"a", "b"}, series: []string{"push"}, values: [][]float64{{50, 100}}},
		`<circle cx="652.5" cy="270.0" r="6"`:                    {groups: []string{"a", "b"}, series: []string{"p99"}, values: [][]float64{{none, 10}}, logarithmic: true},
	} {
		if got := c.svg(); !strings.Contains(got, want) || strings.Contains(got, "NaN") || xml.Unmarshal([]byte(got), new(any)) != nil {
			t.Errorf("there is no %q in\n%s", want, got)
		}
	}
}

func TestReportOfNothing(t *testing.T) {
	if report := readReport(t.TempDir()); len(report.Sections) != 0 {
		t.Errorf("got %v", report)
	}
}

// Versions of programs that are not installed now are kept.
func TestVersionsAreKept(t *testing.T) {
	got := withKept([]string{"Go 1.26", "Redis 8"}, []string{"Go 1.25", "Redis 7", "beanstalkd 1.12"})
	if want := []string{"Go 1.26", "Redis 8", "beanstalkd 1.12"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// The pages are what this program writes for the kept results.
func TestPagesAreOfTheNumbers(t *testing.T) {
	for name, want := range readReport("..").pages() {
		text, err := os.ReadFile(filepath.Join("..", name))
		if err != nil {
			t.Fatal(err)
		}
		if string(text) != want {
			t.Errorf("%s is not what this program writes: go run -C bench . -render", name)
		}
	}
}
