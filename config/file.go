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
	lines   []string
	at      Problem // the line that is read
	section string  // that it is in; "" before the first header
	unended int     // line whose secret the writer may have meant to continue; 0: none
}

const anySection = "[delayer] or [redis]"

// unknown is a section whose keys are passed over. No header has this name.
const unknown = "]"

func (l *loader) file(name string, source []byte) {
	l.name = name
	source = bytes.TrimPrefix(source, []byte("\ufeff"))
	if bytes.HasPrefix(source, []byte("\xff\xfe")) || bytes.HasPrefix(source, []byte("\xfe\xff")) {
		l.report(Problem{File: name}, errors.New("is UTF-16: save it as UTF-8"))
		return
	}
	r := &reader{loader: l, lines: strings.Split(string(source), "\n")}
	for i, line := range r.lines {
		r.at = Problem{File: name, Line: i + 1}
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

// problem reports what is wrong with the line.
func (r *reader) problem(key string, err error) {
	r.at.Key = key
	r.report(r.at, err)
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
	isMeant := func(line string) bool { return strings.HasPrefix(strings.TrimSpace(line), "["+meant+"]") }
	switch shown := "[" + shortened(name) + "]"; {
	case !closed:
		r.problem("", errors.New("a section begins with [ and ends with ]: the ] is missing"))
	case meant == "":
		r.problem(shown, warnf("unknown section: want %s", anySection))
	case name != meant && slices.ContainsFunc(r.lines, isMeant):
		r.section = unknown
		r.problem(shown, warnf("unknown section, did you mean [%s]?", meant))
	case name != meant:
		r.problem(shown, fmt.Errorf("unknown section, did you mean [%s]?", meant))
	case rest != "" && !isComment(rest):
		r.problem("", warnf("there is more behind the section's ]: write it on a line of its own"))
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
	value, err := read(line, value, k.secret())
	r.unended = 0
	if k.secret() && (errors.Is(err, errNoClosingQuote) || strings.HasSuffix(value, `\`)) {
		r.unended = r.at.Line
	}
	if first := r.source[k.String()].Line; first > 0 {
		r.problem(k.String(), warnf("is set on line %d already: the last one counts, keep one of the two lines", first))
	}
	if value == "" && (err == nil || isWarning(err)) && k.set("") != nil {
		value, err = k.standard, warnf("is empty: the default %q is taken", k.standard)
	}
	r.at.Key = k.String()
	r.set(r.at, k, value, err)
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
	say := warnf
	if strings.HasPrefix(name, "tls") || strings.HasPrefix(meant, "tls") {
		say = fmt.Errorf // not to send a password unencrypted for a slip
		r.bad["redis.tls"] = true
	}
	section := strings.TrimPrefix(r.section+".", ".")
	switch {
	case r.unended > 0:
		r.goesOn()
	case isKey && (!isPair || hasMore && normalized(name) != meant):
		r.problem(section+first, fmt.Errorf("there is no = behind the key: want %s = value", first))
	case !isPair || name == "":
		r.problem("", errors.New("is neither [section] nor key = value: begin a comment with ;"))
	case meant != "":
		r.problem(section+shortened(name), say("unknown key, did you mean %s?", meant))
	case elsewhere >= 0:
		r.problem(section+name, say("belongs to [%s]", r.keys[elsewhere].section))
	case r.section == "":
		r.problem(shortened(first), say("stands before the first section: put it below %s", anySection))
	default:
		r.problem(section+shortened(first), say("unknown key: [%s] has %s", r.section, strings.Join(names, ", ")))
	}
}

// goesOn reports a line that may be the rest of a secret, and shows none of it.
func (r *reader) goesOn() {
	r.problem("", fmt.Errorf("sets no key: if it belongs to the value on line %d, that must be on one line", r.unended))
}

// quoted is a value in quotes, and what follows. \" is a quote within "…".
var quoted = regexp.MustCompile("^(\"\"\".*?\"\"\"|\"(?:\\\\*[^\"\\\\]|\\\\+\")*\"|`[^`]*`)(.*)$")

var errNoClosingQuote = errors.New("the closing quote is missing")

// read lets ini.v1 read the value of a line. A comment behind quotes is cut first, as
// ini.v1 takes the line's last quote for the closing one.
func read(line, value string, secret bool) (string, error) {
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
	parsed, err := ini.LoadSources(ini.LoadOptions{UnescapeValueDoubleQuotes: true, IgnoreContinuation: true}, []byte(line))
	if err != nil {
		return "", errors.New("a key is written without quotes")
	}
	key := parsed.Section("").Keys()[0]
	if !utf8.ValidString(key.Value()) {
		return "", errors.New("is not UTF-8: save the file in that encoding")
	}
	return key.Value(), checkComment(value, key.Value(), key.Comment, secret)
}

var (
	commentAtText = regexp.MustCompile(`^[^#;]*[^\s#;][#;]`)
	textAtComment = regexp.MustCompile(`^[#;]\S`)
)

// checkComment tells where ini.v1 cut a comment off that may be part of the value. But
// to a secret, that does no harm.
func checkComment(written, value, comment string, secret bool) error {
	const begins = "the %c begins a comment: put the value in double quotes, or a space on both sides of the %[1]c"
	isHalf := strings.Count(value, `"`)%2 == 1 || strings.Count(value, "`")%2 == 1
	switch touches := commentAtText.MatchString(written); {
	case comment != "" && secret && (touches || isHalf || textAtComment.MatchString(written)):
		return fmt.Errorf(begins, comment[0])
	case comment != "" && touches:
		return warnf(begins, comment[0])
	case secret && strings.HasPrefix(written, "'") && strings.HasPrefix(value, "'"):
		return errors.New("a value that begins with ' must end with its only other ': want double quotes around it")
	}
	return nil
}

func isComment(text string) bool { return text[0] == '#' || text[0] == ';' }
