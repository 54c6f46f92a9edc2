package config

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// lines goes over a file's text before ini.v1 does, because ini.v1 knows no line
// numbers, stops at the first error, and has an answer to much that was meant
// otherwise. It notes where each key stands and what is wrong, and writes out the
// sound lines without their comments: what ini.v1 is then given has one meaning.
type lines struct {
	file     string
	problems Problems
	sound    strings.Builder
	found    map[string]int  // "redis.port" → the line it stands on
	spoilt   map[string]bool // "redis.port" → its line, or one that means it, has a problem

	section  string         // where the scan is; "" before the first header
	headers  map[string]int // section → the line of its first header
	repeated int            // line of the present header, if it is not the section's first
	unended  int            // line whose secret the writer may have meant to continue; 0: none
}

// unknownSection is a section whose keys can't be checked. No header has this name.
const unknownSection = "]"

func scan(file, source string) *lines {
	l := &lines{file: file, found: map[string]int{}, spoilt: map[string]bool{}, headers: map[string]int{}}
	for i, line := range strings.Split(source, "\n") {
		l.line(i+1, strings.TrimSpace(line))
	}
	return l
}

func (l *lines) line(n int, line string) {
	switch {
	case line == "":
		l.unended = 0
	case isComment(line):
	case line[0] == '[':
		l.header(n, line)
	default:
		l.pair(n, line)
	}
}

func (l *lines) problem(n int, key, format string, args ...any) {
	l.problems = append(l.problems, Problem{File: l.file, Line: n, Key: key, Message: fmt.Sprintf(format, args...)})
}

// header reads a [section] line.
func (l *lines) header(n int, line string) {
	name, rest, closed := strings.Cut(line[1:], "]")
	if l.unended > 0 && !slices.Contains(sections(), name) {
		l.goesOn(n)
		return
	}
	l.unended = 0
	if !closed {
		name, _, _ = strings.Cut(name, " ")
		l.problem(n, "", "a section begins with [ and ends with ]: the ] is missing")
	} else if rest = strings.TrimSpace(rest); rest != "" && !isComment(rest) {
		l.problem(n, "", "there is more behind the section's ]: write it on a line of its own")
	}
	l.enter(n, name, closed)
}

// enter goes on in the section that a header names, or most likely means.
func (l *lines) enter(n int, name string, complain bool) {
	meant := nearest(name, sections())
	l.section, l.repeated = cmp.Or(meant, unknownSection), 0
	if complain && name != l.section {
		l.problem(n, "["+shortened(name)+"]", "unknown section%s", sectionHint(meant))
	}
	if meant == "" {
		return
	}
	if l.headers[meant] > 0 {
		l.repeated = n
	} else {
		l.headers[meant] = n
	}
	l.sound.WriteString("[" + meant + "]\n")
}

func sectionHint(meant string) string {
	if meant == "" {
		return ": want " + anySection()
	}
	return ", did you mean [" + meant + "]?"
}

// pair reads a key = value line, or whatever else it is.
func (l *lines) pair(n int, line string) {
	if l.section == unknownSection {
		return
	}
	name, value, ok := cutPair(line)
	k, known := findKey(l.section, name)
	if !ok || !known {
		l.unrecognized(n, line, name, ok)
		return
	}
	value, err := withoutComment(value, k.secret)
	l.unended = 0
	if k.secret && (errors.Is(err, errNoClosingQuote) || strings.HasSuffix(value, `\`)) {
		l.unended = n
	}
	if l.isRepeated(n, k) {
		return
	}
	l.found[k.String()] = n
	if err != nil {
		l.spoilt[k.String()] = true
		l.problem(n, k.String(), "%s", err)
		return
	}
	l.sound.WriteString(k.name + " = " + value + "\n")
}

// cutPair splits a line at the first = or :, as ini.v1 does.
func cutPair(line string) (name, value string, ok bool) {
	i := strings.IndexAny(line, "=:")
	if i < 0 {
		return "", "", false
	}
	return strings.TrimSpace(line[:i]), line[i+1:], true
}

// isRepeated reports a key that has a line already: ini.v1 would take the last
// one without a word.
func (l *lines) isRepeated(n int, k key) bool {
	first := l.found[k.String()]
	if first == 0 {
		return false
	}
	if l.repeated > 0 {
		l.problem(l.repeated, "["+k.section+"]", "repeats keys of [%s] on line %d: keep one of the two sections", k.section, l.headers[k.section])
		l.repeated = 0
	}
	l.problem(n, k.String(), "is set on line %d already: keep one of the two lines", first)
	return true
}

// unrecognized reports a line that sets no key we know. What it shows of the
// line is a key's name at most: the rest may be a piece of a password.
func (l *lines) unrecognized(n int, line, name string, isPair bool) {
	first, _, hasMore := strings.Cut(strings.Join(strings.Fields(name), " "), " ")
	meant := nearest(name, keyNames(l.section))
	switch {
	case l.unended > 0:
		l.goesOn(n)
	case !isPair:
		l.noPair(n, line)
	case name == "":
		l.problem(n, "", "there is no key before the %c: want key = value", line[0])
	case strings.ContainsAny(name[:1], "\"'`"):
		l.problem(n, "", "a key is written without quotes")
	case l.section == "":
		l.problem(n, shortened(first), "stands before the first section: put it below %s", sectionsOf(name))
	case hasMore && l.isKey(first) && normalized(name) != meant:
		l.noPair(n, line)
	case meant != "":
		l.spoilt[l.section+"."+meant] = true
		l.problem(n, l.section+"."+shortened(name), "unknown key, did you mean %s?", meant)
	case sectionsOf(name) != anySection():
		l.problem(n, l.section+"."+shortened(name), "belongs to %s", sectionsOf(name))
	default:
		l.problem(n, l.section+"."+shortened(first), "unknown key: [%s] has %s", l.section, strings.Join(keyNames(l.section), ", "))
	}
}

// goesOn reports a line that may be the rest of a secret, and shows none of it.
func (l *lines) goesOn(n int) {
	l.problem(n, "", "sets no key: if it belongs to the value on line %d, that must be on one line", l.unended)
}

// noPair reports a line without = or :, or one where it comes too late.
func (l *lines) noPair(n int, line string) {
	if first := strings.Fields(line)[0]; l.isKey(first) {
		l.problem(n, l.section+"."+first, "there is no = behind the key: want %s = value", first)
		return
	}
	l.problem(n, "", "is neither [section] nor key = value: begin a comment with ;")
}

func (l *lines) isKey(name string) bool {
	_, known := findKey(l.section, name)
	return known
}

// sectionsOf are the sections that a key could stand in.
func sectionsOf(name string) string {
	for _, section := range sections() {
		if _, known := findKey(section, name); known {
			return "[" + section + "]"
		}
	}
	return anySection()
}

func anySection() string { return "[" + strings.Join(sections(), "] or [") + "]" }

var errNoClosingQuote = errors.New("the closing quote is missing")

// withoutComment is a value as ini.v1 must be given it: quotes kept, the comment
// behind it gone. What ini.v1 would read otherwise than it looks is an error.
func withoutComment(value string, secret bool) (string, error) {
	trimmed := strings.TrimSpace(value)
	text, err := trimmed, error(nil)
	switch {
	case strings.HasPrefix(trimmed, `"""`):
		return "", errors.New(`a value in """ is not read: want one quote at each end, or backticks around a value with quotes in it`)
	case strings.HasPrefix(trimmed, `"`):
		text, err = quoted(trimmed, closingDoubleQuote(trimmed))
	case strings.HasPrefix(trimmed, "`"):
		text, err = quoted(trimmed, 1+strings.IndexByte(trimmed[1:], '`'))
	default:
		text, err = unquoted(value, secret)
	}
	if err == nil && !utf8.ValidString(text) {
		return "", errors.New("is not UTF-8: save the file in that encoding")
	}
	return text, err
}

// closingDoubleQuote is where a "value" ends, 0 if it does not. \" stands for a
// quote in it, and is the only escape that ini.v1 knows.
func closingDoubleQuote(value string) int {
	for i := 1; i < len(value); i++ {
		switch {
		case strings.HasPrefix(value[i:], `\"`):
			i++
		case value[i] == '"':
			return i
		}
	}
	return 0
}

// quoted is the value up to its closing quote, behind which only a comment may
// be: ini.v1 takes the line's last quote, and drops what follows it.
func quoted(value string, end int) (string, error) {
	if end == 0 && value[0] == '"' && strings.HasSuffix(value, `\"`) {
		return "", fmt.Errorf(`%w (\" is a quote within the value): put a value that ends with \ in backticks`, errNoClosingQuote)
	}
	if end == 0 {
		return "", errNoClosingQuote
	}
	if rest := strings.TrimSpace(value[end+1:]); rest != "" && !isComment(rest) {
		return "", errors.New(`there is more behind the closing quote: write \" for a quote within "…", or put the value in backticks`)
	}
	return value[:end+1], nil
}

// unquoted is the value up to a comment, which ini.v1 lets begin at any # or ;.
func unquoted(value string, secret bool) (string, error) {
	text := value
	if i := strings.IndexAny(value, "#;"); i >= 0 {
		if err := checkCut(value[:i], value[i:], secret); err != nil {
			return "", err
		}
		text = value[:i]
	}
	text = strings.TrimSpace(text)
	if strings.HasPrefix(text, "'") && !isSingleQuoted(text) {
		return "", errors.New(`a value that begins with ' must end with its only other ': want double quotes around it`)
	}
	return text, nil
}

// checkCut refuses a comment that may have been meant as part of the value.
func checkCut(value, comment string, secret bool) error {
	if value == "" || !endsWithSpace(value) {
		return fmt.Errorf("the %c right behind another character begins a comment: put the value in double quotes, or a space before the comment", comment[0])
	}
	if secret && strings.TrimSpace(value) == "" && len(comment) > 1 && !startsWithSpace(comment[1:]) {
		return fmt.Errorf("is empty, as %c begins a comment: put the value in double quotes, or a space behind the %[1]c", comment[0])
	}
	for _, quote := range []string{`"`, "`"} {
		if strings.Count(value, quote)%2 == 1 {
			return fmt.Errorf("the %c after a quote begins a comment: put the whole value in quotes", comment[0])
		}
	}
	return nil
}

func isComment(text string) bool { return text[0] == '#' || text[0] == ';' }

func isSingleQuoted(text string) bool {
	return len(text) >= 2 && strings.IndexByte(text[1:], '\'') == len(text)-2
}

func endsWithSpace(s string) bool { return strings.TrimRightFunc(s, unicode.IsSpace) != s }

func startsWithSpace(s string) bool { return strings.TrimLeftFunc(s, unicode.IsSpace) != s }
