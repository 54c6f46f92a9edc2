package main

import (
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
			Name: "push", Title: "Push", About: "How fast.", Mode: "full", Revision: "abc1234", Load: "1.5", Measured: time.Unix(0, 0),
			Tables: []Table{
				{
					ID: "push", Title: "Push, one job a call", Unit: "jobs/s", Chart: bars,
					Columns: []Column{{Name: "1"}, {Name: "8", Digits: 1}},
					Rows:    []Row{{"ours", []Sample{{1000, 3000, 2000}, {5}}}, {"theirs", []Sample{{7}}}},
				},
				{
					ID: "growth", Title: "Growth", Unit: "jobs/s", Head: "waiting", Chart: lines,
					Columns: []Column{{Name: "10", X: 10}, {Name: "1,000", X: 1000}},
					Rows:    []Row{{"ours", []Sample{{10}, {9}}}, {"unmeasured", nil}},
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

func TestMarkdown(t *testing.T) {
	text := sampleReport().Markdown("\nby hand\n")
	for _, want := range []string{
		"| ours | 2,000 (1,000–3,000) | 5.0 |\n",
		"| theirs | 7 | – |\n",
		"![Push, one job a call](bench/push.svg)",
		"| fast | ≥ 2.50× | 3.00× | 2.00–4.00 | met |\n",
		"| on time | ≤ 5.00 ms | 6.00 ms | 4.00–7.00 | **missed** |\n",
		"| never early | ≤ 0.00 | 1.00 | 0.00–1.00 | **missed** |\n",
		"| unknown | ≥ 1.00× | – | – | not measured |\n",
		"- something was left out\n",
		"full sizes, revision abc1234, 1970-01-01 00:00 UTC, the machine's load was 1.5, took",
		handBegin + "\nby hand\n" + handEnd,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("there is no %q in\n%s", want, text)
		}
	}
}

func TestSaveKeepsWhatWasWrittenByHand(t *testing.T) {
	folder := t.TempDir()
	if err := sampleReport().save(folder); err != nil {
		t.Fatal(err)
	}
	document := filepath.Join(folder, "benchmarks.md")
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), handBegin+handEmpty+handEnd) {
		t.Error("the part to be written by hand is missing")
	}
	written := strings.Replace(string(text), handEmpty, "\n\nWe tried.\n\n", 1)
	if err := os.WriteFile(document, []byte(written), 0o644); err != nil {
		t.Fatal(err)
	}

	// A run of one workload keeps the others and the part written by hand.
	report, err := readReport(folder)
	if err != nil {
		t.Fatal(err)
	}
	order := []string{"take", "push"}
	report.add(Section{Name: "push", Title: "Push again"}, order)
	report.add(Section{Name: "take", Title: "Take"}, order)
	if err := report.save(folder); err != nil {
		t.Fatal(err)
	}
	text, _ = os.ReadFile(document)
	for _, want := range []string{"We tried.", "## Take\n", "## Push again\n"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("there is no %q", want)
		}
	}
	if strings.Index(string(text), "## Take") > strings.Index(string(text), "## Push again") {
		t.Error("the sections are out of order")
	}
}

func TestChartsAreDrawn(t *testing.T) {
	folder := t.TempDir()
	if err := sampleReport().save(folder); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"push", "growth"} {
		text, err := os.ReadFile(filepath.Join(folder, "bench", name+".svg"))
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"<svg", "ours", "</svg>"} {
			if !strings.Contains(string(text), want) {
				t.Errorf("%s.svg has no %q", name, want)
			}
		}
	}
}

func TestReportOfNothing(t *testing.T) {
	report, err := readReport(t.TempDir())
	if err != nil || len(report.Sections) != 0 {
		t.Errorf("got %v, %v", report, err)
	}
}

// Versions of programs that are not installed now are kept.
func TestVersionsAreKept(t *testing.T) {
	got := withKept([]string{"Go 1.26", "Redis 8"}, []string{"Go 1.25", "Redis 7", "beanstalkd 1.12"})
	if want := []string{"Go 1.26", "Redis 8", "beanstalkd 1.12"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// docs/benchmarks.md, except the part written by hand, matches the measurements.
func TestDocumentIsOfTheNumbers(t *testing.T) {
	report, err := readReport("../docs")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("../docs/benchmarks.md")
	if err != nil {
		t.Fatal(err)
	}
	_, hand, _ := strings.Cut(string(text), handBegin)
	hand, _, _ = strings.Cut(hand, handEnd)
	if report.Markdown(hand) != string(text) {
		t.Error("docs/benchmarks.md was changed, and not docs/bench/results.json or what writes it")
	}
}
