package redistest

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

// outcomes are the results of the tests on an external Redis.
var outcomes = outcomeList{of: map[string]string{}, why: map[string]string{}}

type outcomeList struct {
	sync.Mutex
	of  map[string]string // test → passed, failed or skipped
	why map[string]string // test → why some of it was skipped
}

// open notes a test that runs on the external Redis. A test has failed if any part of it has, and is skipped if no part ran.
func (o *outcomeList) open(tb testing.TB) {
	tb.Cleanup(func() {
		o.Lock()
		defer o.Unlock()
		switch name := top(tb); {
		case tb.Failed():
			o.of[name] = "failed"
		case !tb.Skipped() && o.of[name] != "failed":
			o.of[name] = "passed"
		}
	})
}

func (o *outcomeList) skip(tb testing.TB, why string) {
	o.Lock()
	defer o.Unlock()
	name := top(tb)
	o.why[name] = why
	if o.of[name] == "" {
		o.of[name] = "skipped"
	}
}

// top returns the name of the test that tb is part of.
func top(tb testing.TB) string {
	name, _, _ := strings.Cut(tb.Name(), "/")
	return name
}

// table lists the promises of promises.txt with the outcomes of this folder's tests.
func (o *outcomeList) table() string {
	o.Lock()
	defer o.Unlock()
	var b strings.Builder
	line := func(title string, tests []string) {
		count := map[string]int{}
		for _, test := range tests {
			count[o.of[test]]++
		}
		if count["passed"]+count["failed"]+count["skipped"] > 0 {
			fmt.Fprintf(&b, "%-72s %6d %6d %7d\n", title, count["passed"], count["failed"], count["skipped"])
		}
	}
	fmt.Fprintf(&b, "%-72s passed failed skipped\n", "promise")
	listed := map[string]bool{}
	for _, p := range promises() {
		line(p.name, p.tests)
		for _, test := range p.tests {
			listed[test] = true
		}
	}
	all := slices.Sorted(maps.Keys(o.of))
	line("tests that are listed under no promise", slices.DeleteFunc(slices.Clone(all), func(test string) bool { return listed[test] }))
	line("all tests (some belong to several promises)", all)
	groups := map[string][]string{}
	for _, test := range all {
		switch o.of[test] {
		case "failed":
			groups["failed"] = append(groups["failed"], test)
		case "skipped":
			groups["skipped: "+o.why[test]] = append(groups["skipped: "+o.why[test]], test)
		}
	}
	for _, group := range slices.Sorted(maps.Keys(groups)) {
		fmt.Fprintf(&b, "\n%s:\n  %s\n", group, strings.Join(groups[group], " "))
	}
	return b.String()
}

// promise is a heading of promises.txt with its tests in this folder.
type promise struct {
	name  string
	tests []string
}

func promises() (list []promise) {
	dir, _ := os.Getwd()
	text, folder := []byte(nil), ""
	for text == nil && len(dir) > 1 { // tests run in their package's folder
		text, _ = os.ReadFile(filepath.Join(dir, "internal/testing/redistest/promises.txt"))
		if text == nil {
			dir, folder = filepath.Dir(dir), filepath.Join(filepath.Base(dir), folder)
		}
	}
	test := regexp.MustCompile(`^` + regexp.QuoteMeta(filepath.ToSlash(folder)) + `/(Test\w+)$`)
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if name, ok := strings.CutPrefix(line, "## "); ok {
			list = append(list, promise{name: name})
		} else if m := test.FindStringSubmatch(line); m != nil && len(list) > 0 {
			list[len(list)-1].tests = append(list[len(list)-1].tests, m[1])
		}
	}
	return list
}
