package config

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"

	"gopkg.in/ini.v1"

	"github.com/mix-basic/delayer/internal/nearest"
)

const (
	neither    = "is neither [section] nor key = value: start a comment with ;"
	anySection = "[delayer], [redis], [http] or [schedule.NAME]"
	noSection  = "]" // an unknown section whose keys are skipped; no header has this name
)

// file reads line by line, because ini.v1 reports no line numbers and stops at the first error.
func (l *loader) file(name string, source []byte) {
	l.path = place{file: name + ": "}
	if bytes.IndexByte(source, 0) >= 0 {
		l.fail(l.path, "is not UTF-8 text: save it as UTF-8")
		return
	}
	section := ""
	for i, line := range strings.Split(strings.TrimPrefix(string(source), "\ufeff"), "\n") {
		at := place{file: fmt.Sprintf("%s:%d: ", name, i+1)}
		switch line = strings.TrimSpace(line); {
		case line == "" || line[0] == '#' || line[0] == ';':
		case line[0] == '[':
			section = l.header(at, line)
		case section != noSection:
			l.pair(at, section, line)
		}
	}
}

var header = regexp.MustCompile(`^\[([^\]]*)\]\s*([#;].*)?$`)

// header reads a [section] line. A misspelt section is an error, because all its keys would keep their
// defaults.
func (l *loader) header(at place, line string) (section string) {
	m := header.FindStringSubmatch(line)
	if m == nil {
		l.fail(at, neither)
		return noSection
	}
	if name, is := scheduleOf(m[1]); is {
		return l.schedule(at, m[1], name)
	}
	meant := nearest.Of(strings.TrimSpace(m[1]), sections)
	if meant == "" {
		l.warn(at, "unknown section: want %s", anySection)
		return noSection
	}
	if meant != m[1] {
		l.fail(at, "unknown section, did you mean [%s]?", meant)
	}
	return meant
}

// quoted matches a quoted value and the comment after it. \" is a quote within "…".
var quoted = regexp.MustCompile("^(\"\"\".*?\"\"\"|\"(?:\\\\*[^\"\\\\]|\\\\+\")*\"|`[^`]*`)\\s*([#;].*)?$")

var options = ini.LoadOptions{UnescapeValueDoubleQuotes: true, IgnoreContinuation: true}

// pair passes a key = value line to ini.v1. It first removes the comment after a quoted value, because ini.v1
// takes the last quote of the line as the closing one.
func (l *loader) pair(at place, section, line string) {
	i := strings.IndexAny(line, "=:") + 1 // like ini.v1
	written := strings.TrimSpace(line[i:])
	misquoted := strings.HasPrefix(written, `"`) || strings.HasPrefix(written, "`")
	if m := quoted.FindStringSubmatch(written); m != nil {
		misquoted, line = false, line[:i]+m[1]
	} else if misquoted {
		line = line[:i]
	}
	file, err := ini.LoadSources(options, []byte(line))
	if err != nil || len(file.Section("").Keys()) == 0 {
		l.fail(at, neither)
		return
	}
	pair := file.Section("").Keys()[0]
	k, known := l.keys[section+"."+pair.Name()]
	if !known {
		l.unknownKey(at, section, pair.Name())
		return
	}
	at.name = k.String() + ": "
	if first, twice := l.set[k.String()]; twice {
		l.warn(at, "is set at %s already: the last one counts; keep one of the two lines", strings.TrimSuffix(first.file, ": "))
	}
	l.set[k.String()] = at
	if misquoted {
		l.fail(at, `the closing quote is missing or followed by more text: write \" for a quote within "…", or put the value in backticks`)
		return
	}
	l.checkCut(at, k, written, pair)
	value := pair.Value()
	if value == "" && k.standard != "" && k.set("") != nil {
		l.warn(at, "is empty: the default %q is used", k.standard)
		value = k.standard
	}
	l.put(at, k, value)
}

var (
	commentAtText = regexp.MustCompile(`^[^#;]*[^\s#;][#;]`)
	textAtComment = regexp.MustCompile(`^[#;]\S`)
	fullWidth     = regexp.MustCompile(`\s[；＃]`)
)

// checkCut reports a comment that may be part of the value. Only for secrets is that an error.
func (l *loader) checkCut(at place, k key, written string, pair *ini.Key) {
	isCut, report := commentAtText.MatchString(written), l.warn
	if strings.HasPrefix(k.section, schedulePrefix) {
		report = l.fail // 5#2, cut, would be another day
	}
	if k.secret() {
		isCut = isCut || textAtComment.MatchString(written) || strings.ContainsAny(pair.Value(), "'\"`")
		report = l.fail
	}
	if isCut && pair.Comment != "" {
		report(at, "the %.1s starts a comment: put the value in double quotes, or a space on both sides of the %.1[1]s", pair.Comment)
	}
	if fullWidth.MatchString(written) && !quoted.MatchString(written) {
		l.warn(at, "a full-width ； or ＃ is part of the value: start a comment with ; or #, or put the value in double quotes")
	}
}

// unknownKey reports a key that the section does not have. It shows only text that resembles a key, because
// the rest may be part of a password. A typo that would send a password unencrypted or open the HTTP server
// is an error: the original's files have no such keys.
func (l *loader) unknownKey(at place, section, name string) {
	meant := nearest.Of(name, l.names[section])
	var homes []string
	for _, other := range sections {
		if _, has := l.keys[other+"."+name]; has {
			homes = append(homes, "["+other+"]")
		}
	}
	home := strings.Join(homes, " or ")
	report := l.warn
	if section == "http" || home == "[http]" || strings.HasPrefix(name, "tls") || strings.HasPrefix(meant, "tls") {
		report = l.fail
	}
	if meant != "" || home != "" {
		at.name = strings.TrimPrefix(section+"."+name+": ", ".")
	}
	switch {
	case meant != "":
		report(at, "unknown key, did you mean %s?", meant)
	case home != "":
		report(at, "belongs to %s", home)
	case section == "":
		report(at, "is before the first section: move it below %s", anySection)
	default:
		report(at, "unknown key: [%s] has %s", section, strings.Join(l.names[section], ", "))
	}
}
