package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestTranslations checks that a Chinese page has the headings and tables of the English one: headings of the same levels, and rows
// with as many cells, the same numerals, the same code in the first cell, and the same text in those without Chinese characters.
func TestTranslations(t *testing.T) {
	all := pages(t)
	count := 0
	for page, text := range all {
		original, isChinese := strings.CutSuffix(page, ".zh-CN.md")
		if !isChinese {
			continue
		}
		count++
		theirs, ours := outlineOf(text), outlineOf(all[original+".md"])
		if len(theirs) != len(ours) {
			t.Errorf("%s has %d headings and rows of tables, the English page has %d", page, len(theirs), len(ours))
		}
		for i := range min(len(theirs), len(ours)) {
			if !theirs[i].translates(ours[i]) {
				t.Errorf("%s has\n%s\nwhere the English page has\n%s", page, theirs[i].text, ours[i].text)
				break
			}
		}
	}
	if count == 0 {
		t.Error("there are none")
	}
}

// outlined is a heading, or a row of a table.
type outlined struct {
	level int // of a heading
	cells []string
	text  string
}

func outlineOf(page string) (outline []outlined) {
	for line := range strings.Lines(fence.ReplaceAllString(page, "")) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "#"):
			outline = append(outline, outlined{level: len(line) - len(strings.TrimLeft(line, "#")), text: line})
		case strings.HasPrefix(line, "|"):
			outline = append(outline, outlined{cells: cellsOf(line), text: line})
		}
	}
	return outline
}

// cellsOf returns the cells of a table's row; a cell may have bars after backslashes.
func cellsOf(row string) (cells []string) {
	const bar = "\x00"
	row = strings.TrimSuffix(strings.TrimPrefix(strings.ReplaceAll(row, `\|`, bar), "|"), "|")
	for cell := range strings.SplitSeq(row, "|") {
		cells = append(cells, strings.TrimSpace(strings.ReplaceAll(cell, bar, `\|`)))
	}
	return cells
}

func (o outlined) translates(original outlined) bool {
	if o.level != original.level || len(o.cells) != len(original.cells) || o.level == 0 && !slices.Equal(numeralsOf(o.text), numeralsOf(original.text)) {
		return false
	}
	for i, cell := range o.cells {
		if i == 0 && !slices.Equal(span.FindAllString(cell, -1), span.FindAllString(original.cells[i], -1)) || !han.MatchString(cell) && latin(cell) != latin(original.cells[i]) {
			return false
		}
	}
	return true
}

var (
	anyNumeral = regexp.MustCompile(`\d[\d,.]*`)
	month      = regexp.MustCompile(`\d+ 月`)
)

// numeralsOf returns the numerals of a text in order of size, apart from those in the addresses of links, and Chinese names of months.
func numeralsOf(text string) []string {
	list := anyNumeral.FindAllString(month.ReplaceAllString(linkedText.ReplaceAllString(text, "$1"), ""), -1)
	for i := range list {
		list[i] = strings.ReplaceAll(strings.TrimRight(list[i], ".,"), ",", "")
	}
	slices.Sort(list)
	return list
}

// latin replaces Chinese punctuation.
func latin(text string) string {
	return strings.Join(strings.Fields(strings.NewReplacer("、", ", ", "；", "; ", "，", ", ", "（", " (", "）", ")", ".zh-CN.md", ".md").Replace(text)), " ")
}

var (
	comment = regexp.MustCompile(`(?m)(^|\s)(//|#|;) .*$`)
	han     = regexp.MustCompile(`\p{Han}`)
)

// TestTranslatedSamples checks that a Chinese page has the samples of the English one, except for comments and translated texts.
func TestTranslatedSamples(t *testing.T) {
	all := pages(t)
	for page, text := range all {
		original, isChinese := strings.CutSuffix(page, ".zh-CN.md")
		if !isChinese {
			continue
		}
		theirs, ours := Samples(text), Samples(all[original+".md"])
		if len(theirs) != len(ours) {
			t.Errorf("%s has %d samples, the English page has %d", page, len(theirs), len(ours))
		}
		for i := range min(len(theirs), len(ours)) {
			if theirs[i].Language != ours[i].Language || !sameLines(theirs[i].Text, ours[i].Text) {
				t.Errorf("%s:%d: this sample is not the one of %s.md:%d", page, theirs[i].Line, original, ours[i].Line)
			}
		}
	}
}

// sameLines compares samples line by line without comments. A line with Chinese characters counts as a translation.
func sameLines(chinese, english string) bool {
	a, b := codeLines(chinese), codeLines(english)
	return slices.EqualFunc(a, b, func(a, b string) bool { return a == b || han.MatchString(a) })
}

func codeLines(sample string) (lines []string) {
	for line := range strings.Lines(comment.ReplaceAllString(sample, "")) {
		if line = strings.Join(strings.Fields(line), " "); line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}

var setting = regexp.MustCompile(`(?m)^(\[[^]]+\]|;? *(?:\[schedule\.\w+\]|[a-z_]+ = ?[^;\n]*?)) *(?:;.*)?$`)

// TestChineseConfiguration checks that docs/delayer.zh-CN.conf has the settings of delayer.conf, with the same values, and the same ones switched off.
func TestChineseConfiguration(t *testing.T) {
	settings := func(file string) (list []string) {
		text, err := os.ReadFile(filepath.Join(project, file))
		must(t, err)
		for _, found := range setting.FindAllStringSubmatch(string(text), -1) {
			list = append(list, strings.TrimSpace(found[1]))
		}
		return list
	}
	got, want := settings("docs/delayer.zh-CN.conf"), settings("delayer.conf")
	if !slices.Equal(got, want) || len(want) < 60 {
		t.Errorf("it has\n%q\nand delayer.conf has\n%q", got, want)
	}
}
