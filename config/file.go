package config

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"gopkg.in/ini.v1"
)

// reader reads a file line by line, as ini.v1 knows no line numbers and stops at
// the first error.
type reader struct {
	*loader
	has     map[string]bool // sections that the file has a header of
	line    int             // that is read, counted from 1
	section string          // that it is in; "" before the first header
	unended int             // line whose secret the writer may have meant to continue; 0: none
}

const anySection = "[delayer] or [redis]"

// unknown is a section whose keys are passed over. No header has this name.
const unknown = "]"

func (l *loader) file(name string, source []byte) {
	l.name = name
	source = bytes.TrimPrefix(source, []byte("\ufeff"))
	if bytes.HasPrefix(source, []byte("\xff\xfe")) || bytes.HasPrefix(source, []byte("\xfe\xff")) {
		l.fail(Problem{File: name}, "is UTF-16: save it as UTF-8")
		return
	}
	r := &reader{loader: l, has: map[string]bool{}}
	lines := strings.Split(string(source), "\n")
	for _, section := range sections {
		isHeader := func(line string) bool { return strings.HasPrefix(strings.TrimSpace(line), "["+section+"]") }
		r.has[section] = slices.ContainsFunc(lines, isHeader)
	}
	for i, line := range lines {
		r.line = i + 1
		switch line = strings.TrimSpace(line); {
		case line == "":
			r.unended = 0
		case isComment(line):
		case line[0] == '[':
			r.header(line)
		case r.section != unknown:
			r.pair(line)
		}
	}
}

// on is the line as the place of a problem with the key.
func (r *reader) on(key string) Problem {
	return Problem{File: r.name, Line: r.line, Key: key}
}

// header reads a [section] line. A misspelt section is an error, as all its keys
// would be left on their defaults; unless the file has the right one as well.
func (r *reader) header(line string) {
	name, rest, closed := strings.Cut(line[1:], "]")
	if !closed {
		name, _, _ = strings.Cut(name, " ")
	}
	meant := nearest(name, sections)
	if r.unended > 0 && name != meant {
		r.goesOn()
		return
	}
	r.unended, r.section = 0, cmp.Or(meant, unknown)
	rest = strings.TrimSpace(rest)
	switch shown := "[" + shortened(name) + "]"; {
	case !closed:
		r.fail(r.on(""), "a section begins with [ and ends with ]: the ] is missing")
	case meant == "":
		r.warn(r.on(shown), "unknown section: want %s", anySection)
	case name != meant && r.has[meant]:
		r.section = unknown
		r.warn(r.on(shown), "unknown section, did you mean [%s]?", meant)
	case name != meant:
		r.fail(r.on(shown), "unknown section, did you mean [%s]?", meant)
	case rest != "" && !isComment(rest):
		r.warn(r.on(""), "there is more behind the section's ]: write it on a line of its own")
	}
}

// pair reads a key = value line, or whatever else it is.
func (r *reader) pair(line string) {
	name, value, isPair := cutPair(line)
	i := slices.IndexFunc(r.keys, func(k key) bool { return k.section == r.section && k.name == name })
	if !isPair || i < 0 {
		r.unrecognized(name, isPair)
		return
	}
	k := r.keys[i]
	at := r.on(k.String())
	if first := r.source[k.String()].Line; first > 0 {
		r.warn(at, "is set on line %d already: the last one counts, keep one of the two lines", first)
	}
	value, err := r.read(k, line, value)
	r.unended = 0
	if k.secret() && (errors.Is(err, errNoClosingQuote) || strings.HasSuffix(value, `\`)) {
		r.unended = r.line
	}
	if err == nil && value == "" && k.set("") != nil {
		r.warn(at, "is empty: the default %q is taken", k.standard)
		value = k.standard
	}
	r.set(at, k, value, err)
}

// cutPair splits a line at the first = or :, as ini.v1 does.
func cutPair(line string) (name, value string, ok bool) {
	i := strings.IndexAny(line, "=:")
	if i < 0 {
		return line, "", false
	}
	return strings.Trim(strings.TrimSpace(line[:i]), "\"`"), strings.TrimSpace(line[i+1:]), true
}

// unrecognized reports a line that sets no key of the section. What it shows of the
// line is a key's name at most: the rest may be a piece of a password.
func (r *reader) unrecognized(name string, isPair bool) {
	names := r.names(r.section)
	first, _, hasMore := strings.Cut(strings.Join(strings.Fields(name), " "), " ")
	isKey := slices.Contains(names, first)
	meant := nearest(name, names)
	elsewhere := slices.IndexFunc(r.keys, func(k key) bool { return k.name == name })
	say := r.warn
	if strings.HasPrefix(name, "tls") || strings.HasPrefix(meant, "tls") {
		say = r.fail // not to send a password unencrypted for a slip
		r.bad["redis.tls"] = true
	}
	section := strings.TrimPrefix(r.section+".", ".")
	switch {
	case r.unended > 0:
		r.goesOn()
	case isKey && (!isPair || hasMore && normalized(name) != meant):
		r.fail(r.on(section+first), "there is no = behind the key: want %s = value", first)
	case !isPair || name == "":
		r.fail(r.on(""), "is neither [section] nor key = value: begin a comment with ;")
	case meant != "":
		say(r.on(section+shortened(name)), "unknown key, did you mean %s?", meant)
	case elsewhere >= 0:
		say(r.on(section+name), "belongs to [%s]", r.keys[elsewhere].section)
	case r.section == "":
		say(r.on(shortened(first)), "stands before the first section: put it below %s", anySection)
	default:
		say(r.on(section+shortened(first)), "unknown key: [%s] has %s", r.section, strings.Join(names, ", "))
	}
}

// goesOn reports a line that may be the rest of a secret, and shows none of it.
func (r *reader) goesOn() {
	r.fail(r.on(""), "sets no key: if it belongs to the value on line %d, that must be on one line", r.unended)
}

// quoted is a value in quotes, and what follows. \" is a quote within "…".
var quoted = regexp.MustCompile("^(\"\"\".*?\"\"\"|\"(?:\\\\*[^\"\\\\]|\\\\+\")*\"|`[^`]*`)(.*)$")

var errNoClosingQuote = errors.New("the closing quote is missing")

// read lets ini.v1 read the value of a line. A comment behind quotes is cut first, as
// ini.v1 takes the line's last quote for the closing one.
func (r *reader) read(k key, line, value string) (string, error) {
	if strings.HasPrefix(value, `"`) || strings.HasPrefix(value, "`") {
		m := quoted.FindStringSubmatch(value)
		switch {
		case m == nil && strings.HasSuffix(value, `\"`):
			return "", fmt.Errorf(`%w (\" is a quote within the value): put a value that ends with \ in backticks`, errNoClosingQuote)
		case m == nil:
			return "", errNoClosingQuote
		}
		if rest := strings.TrimSpace(m[2]); rest != "" && !isComment(rest) {
			return "", errors.New(`there is more behind the closing quote: write \" for a quote within "…", or put the value in backticks`)
		}
		line = strings.TrimSuffix(line, value) + m[1]
	}
	file, err := ini.LoadSources(ini.LoadOptions{UnescapeValueDoubleQuotes: true, IgnoreContinuation: true}, []byte(line))
	if err != nil {
		return "", errors.New("a key is written without quotes")
	}
	read := file.Section("").Keys()[0]
	if !utf8.ValidString(read.Value()) {
		return "", errors.New("is not UTF-8: save the file in that encoding")
	}
	return read.Value(), r.checkCut(k, value, read)
}

var (
	commentAtText = regexp.MustCompile(`^[^#;]*[^\s#;][#;]`)
	textAtComment = regexp.MustCompile(`^[#;]\S`)
)

// checkCut tells where ini.v1 cut a comment off that may be part of the value. That
// does harm to a secret only.
func (r *reader) checkCut(k key, written string, read *ini.Key) error {
	const begins = "the %.1s begins a comment: put the value in double quotes, or a space on both sides of the %.1[1]s"
	value, comment := read.Value(), read.Comment
	touches := commentAtText.MatchString(written)
	open := strings.HasPrefix(value, "'") || strings.Count(value, `"`)%2 == 1 || strings.Count(value, "`")%2 == 1
	switch {
	case comment == "":
	case k.secret() && (touches || open || textAtComment.MatchString(written)):
		return fmt.Errorf(begins, comment)
	case touches:
		r.warn(r.on(k.String()), begins, comment)
	}
	return nil
}

func isComment(text string) bool { return text[0] == '#' || text[0] == ';' }
