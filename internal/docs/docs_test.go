package docs

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// project is the folder of the project.
const project = "../.."

// must fails the test on an error.
var must = redistest.Check

// inProject returns a file's path relative to the project.
func inProject(file string) string {
	return filepath.ToSlash(strings.TrimPrefix(file, filepath.FromSlash(project+"/")))
}

// pages returns the text of all documents by path: of users, of contributors, and tables that tests or programs write.
func pages(t *testing.T) map[string]string {
	t.Helper()
	files := slices.Concat(glob(t, "*.md"), glob(t, "docs/*.md"), glob(t, "docs/adr/*.md"), glob(t, "bench/*.md"), glob(t, "client/testdata/*.md"), glob(t, "internal/store/*.md"))
	texts := make(map[string]string, len(files))
	for _, file := range files {
		text, err := os.ReadFile(file)
		must(t, err)
		texts[inProject(file)] = string(text)
	}
	return texts
}

func glob(t *testing.T, pattern string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(project, pattern))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: %v, %d files", pattern, err, len(files))
	}
	return files
}

// sources returns the text of all files with these extensions by path.
func sources(t *testing.T, extensions ...string) map[string]string {
	t.Helper()
	texts := map[string]string{}
	must(t, filepath.WalkDir(project, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == "node_modules" || entry.Name() == ".git"):
			return filepath.SkipDir
		case entry.IsDir() || !slices.Contains(extensions, filepath.Ext(path)):
			return nil
		}
		text, err := os.ReadFile(path)
		texts[inProject(path)] = string(text)
		return err
	}))
	return texts
}

var link = regexp.MustCompile(`\]\(([^)\s]+)\)`)

// TestLinks checks that each link leads to a file, and to a heading if it names one.
func TestLinks(t *testing.T) {
	all := pages(t)
	for page, text := range all {
		for _, found := range link.FindAllStringSubmatch(span.ReplaceAllString(withoutCode(text), ""), -1) {
			if strings.Contains(found[1], "://") {
				continue
			}
			file, anchor, _ := strings.Cut(found[1], "#")
			name := page
			if file != "" {
				name = filepath.ToSlash(filepath.Join(filepath.Dir(page), file))
			}
			if _, err := os.Stat(filepath.Join(project, name)); err != nil {
				t.Errorf("%s links to %s: %v", page, found[1], err)
			} else if anchor != "" && !slices.Contains(anchors(all[name]), anchor) {
				t.Errorf("%s links to %s, and %s has no such heading", page, found[1], name)
			}
		}
	}
}

var (
	heading    = regexp.MustCompile(`(?m)^#+ (.*)$`)
	ownAnchor  = regexp.MustCompile(`<a (?:id|name)="([^"]+)">`)
	linkedText = regexp.MustCompile(`\[([^]]*)\]\([^)]*\)`)
)

// anchors returns the anchors that GitHub derives from headings, and explicit ones.
func anchors(text string) (list []string) {
	for _, found := range ownAnchor.FindAllStringSubmatch(text, -1) {
		list = append(list, found[1])
	}
	for _, found := range heading.FindAllStringSubmatch(withoutCode(text), -1) {
		title := linkedText.ReplaceAllString(found[1], "$1")
		list = append(list, strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
				return unicode.ToLower(r)
			}
			return -1
		}, title))
	}
	return list
}

var (
	fence = regexp.MustCompile("(?ms)^ *```.*?^ *```$")
	span  = regexp.MustCompile("`[^`\n]*`")
)

// withoutCode removes samples.
func withoutCode(text string) string {
	text = fence.ReplaceAllString(text, "")
	lines := strings.Split(text, "\n")
	return strings.Join(slices.DeleteFunc(lines, func(line string) bool { return strings.HasPrefix(line, "    ") }), "\n")
}

var (
	namedTest = regexp.MustCompile(`((?:[a-z][a-z0-9]*/)+)?\b((?:Test|Example|Fuzz|Benchmark)[A-Z]\w*)\b`)
	function  = regexp.MustCompile(`(?m)^func (Test\w+|Example\w*|Fuzz\w+|Benchmark\w+)\(`)
)

// TestNamedTests checks that tests named in documents and in the list of promises exist: client/TestModel is TestModel in the folder client.
func TestNamedTests(t *testing.T) {
	folders, anywhere := testFunctions(t)
	count := 0
	all := pages(t)
	for file, text := range sources(t, ".txt") {
		if filepath.Base(file) == "promises.txt" {
			all[file] = text
		}
	}
	for page, text := range all {
		for _, found := range namedTest.FindAllStringSubmatch(text, -1) {
			folder, name := strings.TrimSuffix(found[1], "/"), found[2]
			if strings.HasPrefix(page, "docs/tutorial.") { // its program has a test
				continue
			}
			if folder == "" && !anywhere[name] || folder != "" && !folders[folder][name] {
				t.Errorf("%s names %s: no such test", page, found[0])
			}
			count++
		}
	}
	if count < 100 {
		t.Errorf("%d are named", count)
	}
}

// testFunctions returns all tests, examples, fuzz tests and benchmarks, by folder and overall.
func testFunctions(t *testing.T) (folders map[string]map[string]bool, anywhere map[string]bool) {
	t.Helper()
	folders, anywhere = map[string]map[string]bool{}, map[string]bool{}
	for file, text := range sources(t, ".go") {
		if !strings.HasSuffix(file, "_test.go") {
			continue
		}
		folder := path.Dir(file)
		if folders[folder] == nil {
			folders[folder] = map[string]bool{}
		}
		for _, found := range function.FindAllStringSubmatch(text, -1) {
			folders[folder][found[1]], anywhere[found[1]] = true, true
		}
	}
	return folders, anywhere
}

var namedFile = regexp.MustCompile(`\bdocs/[\w./-]+\.\w+`)

// TestNamedDocuments checks that documents named in documents, sources and configuration exist.
func TestNamedDocuments(t *testing.T) {
	for file, text := range sources(t, ".md", ".go", ".lua", ".yaml", ".yml", ".conf", ".html", ".sh") {
		for _, name := range namedFile.FindAllString(text, -1) {
			if _, err := os.Stat(filepath.Join(project, name)); err != nil {
				t.Errorf("%s names %s: %v", file, name, err)
			}
		}
	}
}

// TestPicturesAreShown checks that docs/screens holds only what a document shows.
func TestPicturesAreShown(t *testing.T) {
	var texts strings.Builder
	for _, text := range pages(t) {
		texts.WriteString(text)
	}
	for _, picture := range glob(t, "docs/screens/*") {
		if !strings.Contains(texts.String(), "screens/"+filepath.Base(picture)+")") {
			t.Errorf("no document shows %s", inProject(picture))
		}
	}
}

var namedPath = regexp.MustCompile("`((?:internal|cmd|client|server|config|logger|tools|bench)(?:/[a-z0-9_.-]+)+)`")

// TestNamedPaths checks that files and folders named in documents exist.
func TestNamedPaths(t *testing.T) {
	count := 0
	for page, text := range pages(t) {
		for _, found := range namedPath.FindAllStringSubmatch(text, -1) {
			count++
			if _, err := os.Stat(filepath.Join(project, found[1])); err != nil {
				t.Errorf("%s names %s: %v", page, found[1], err)
			}
		}
	}
	if count < 50 {
		t.Errorf("%d are named", count)
	}
}

// TestCodemap checks that ARCHITECTURE.md has each package below internal.
func TestCodemap(t *testing.T) {
	text := pages(t)["ARCHITECTURE.md"]
	for _, folder := range glob(t, "internal/*") {
		if !strings.Contains(text, "`"+inProject(folder)+"`") && !strings.Contains(text, "`"+inProject(folder)+"/") {
			t.Errorf("it lacks %s", inProject(folder))
		}
	}
}
