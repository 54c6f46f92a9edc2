package main

import (
	"fmt"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/mix-basic/delayer/config"
	"github.com/mix-basic/delayer/internal/view"
)

// mask removes secrets from texts and, unless bodies is set, IDs, bodies and notes. It keeps only what is known to be
// harmless: plain words, small numbers, durations, addresses, and the names in known. So it also masks forms that nobody
// has thought of.
type mask struct {
	bodies  bool
	known   map[string]bool   // settings, topics, addresses, versions
	secrets *strings.Replacer // of the configuration
}

const (
	masked       = "(…)"
	maskedSecret = "(secret)"
	leastSecret  = 4 // bytes; a shorter secret would replace parts of words
)

func newMask(c config.Config, bodies bool) *mask {
	values := []string{c.Redis.Password, c.Redis.SentinelPassword, c.HTTP.Token}
	for _, u := range c.HTTP.Users {
		values = append(values, u.Password)
	}
	var pairs []string
	for _, v := range values {
		for _, form := range []string{v, strings.Trim(strconv.Quote(v), `"`), url.PathEscape(v), url.QueryEscape(v)} {
			if len(v) >= leastSecret {
				pairs = append(pairs, form, maskedSecret)
			}
		}
	}
	m := &mask{bodies: bodies, known: map[string]bool{}, secrets: strings.NewReplacer(pairs...)}
	m.know(version, c.Redis.Prefix, c.Redis.Host, c.Redis.Addr())
	m.know(slices.Concat(c.Redis.Sentinels, c.Redis.Cluster)...)
	return m
}

// know adds harmless names.
func (m *mask) know(names ...string) {
	for _, name := range names {
		m.known[name] = name != ""
	}
}

// credentials matches the user information of a URL, up to the last @.
var credentials = regexp.MustCompile(`://[^\s"]*@`)

// withoutSecrets returns a text whose IDs and bodies may be shown.
func (m *mask) withoutSecrets(text string) string {
	return credentials.ReplaceAllString(m.secrets.Replace(text), "://"+maskedSecret+"@")
}

var (
	forbidden = regexp.MustCompile(`run the '([a-z|-]+)' command`) // as Redis names a command that the user may not run
	listOfIDs = regexp.MustCompile(`\bIDs: \[.*\]`)
	quotes    = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)
	// A quote opens after, and closes before, a space or punctuation.
	opensQuote, closesQuote = regexp.MustCompile(`(?:^|[ (\[{=:])$`), regexp.MustCompile(`^(?:$|[ )\]},.:;…])`)
	// harmless matches a word with its punctuation. A word may be the name of a setting or an option; a number has at
	// most nine digits in a row, more may be an ID.
	harmless = regexp.MustCompile(`^(?:[+~&-]{0,2}[A-Za-z]+(?:['’._|-][A-Za-z]+)*|\d{1,9}(?:(?:[.:/-]|ns|µs|ms|s|m|h)\d{1,9})*(?:ns|µs|ms|s|m|h|d|kB|MB|GB|%)?|i/o|[=–…%/&+~*-]+)$`)
)

// text returns a message, in which quotes, lists of IDs, and words that are not harmless are masked.
func (m *mask) text(message string) string {
	message = m.withoutSecrets(message)
	if m.bodies {
		return message
	}
	message = forbidden.ReplaceAllString(message, "run the $1 command")
	message = listOfIDs.ReplaceAllString(message, "IDs: ["+masked+"]")
	text, at := "", 0
	for _, place := range quotes.FindAllStringIndex(message, -1) {
		quoted := message[place[0]:place[1]]
		name, err := strconv.Unquote(quoted)
		if err != nil || !opensQuote.MatchString(message[at:place[0]]) || !closesQuote.MatchString(message[place[1]:]) {
			break // a name with a quote in it: what looks quoted may be between quotes
		}
		if !m.known[name] {
			quoted = `"` + masked + `"`
		}
		text += m.words(message[at:place[0]]) + quoted
		at = place[1]
	}
	rest, _, more := strings.Cut(message[at:], `"`)
	if text += m.words(rest); more {
		text += masked
	}
	return text
}

// words masks the words of a text without quotes.
func (m *mask) words(text string) string {
	words := strings.Split(text, " ")
	for i, word := range words {
		core := strings.Trim(word, "()[]{}.,:;!?")
		_, _, notAddress := net.SplitHostPort(core)
		isAddress := notAddress == nil && net.ParseIP(hostOf(core)) != nil
		if core != "" && !m.known[core] && !m.known[strings.Trim(word, "().,;")] && !isAddress && !harmless.MatchString(core) {
			words[i] = strings.Replace(word, core, m.key(core), 1)
		}
	}
	return strings.Join(words, " ")
}

func hostOf(address string) string {
	host, _, _ := net.SplitHostPort(address)
	return host
}

// keyName matches a key: the prefix of a partition, the kind, and an ID or a topic.
var keyName = regexp.MustCompile(`^(.+:)?([a-z_]{3,}):[^:]+$`)

// key masks a name. A key keeps its prefix, if that is the configured one, and its kind.
func (m *mask) key(name string) string {
	if parts := keyName.FindStringSubmatch(name); parts != nil && m.known[partitionTag.ReplaceAllString(parts[1], "")] {
		return parts[1] + parts[2] + ":" + masked
	}
	return masked
}

var partitionTag = regexp.MustCompile(`\{\d+\}:$`)

// Members of objects: messages are ours, with names in them; notes are anything that an operator wrote.
var messages, notes = map[string]bool{"error": true, "what": true, "evidence": true, "fix": true}, map[string]bool{"note": true}

// object returns an object without the texts that may hold bodies, IDs or secrets.
func (m *mask) object(o view.Object) view.Object {
	cleaned := make(view.Object, len(o))
	for i, member := range o {
		name := strings.TrimSuffix(member.Name, "_base64")
		switch v := member.Value.(type) {
		case view.Object:
			member.Value = m.object(v)
		case []view.Object:
			list := make([]view.Object, len(v))
			for k, one := range v {
				list[k] = m.object(one)
			}
			member.Value = list
		case string:
			member.Value = m.withoutSecrets(v)
			if messages[name] {
				member.Value = m.text(v)
			}
			if notes[name] && !m.bodies {
				member.Value = masked
			}
		case []byte:
			if notes[name] && !m.bodies {
				member = view.Member{Name: name, Value: masked}
			}
		}
		cleaned[i] = member
	}
	return cleaned
}

// errorText returns an error on one line.
func (m *mask) errorText(err error) string { return m.text(inOneLine(fmt.Sprint(unreachable(err)))) }
