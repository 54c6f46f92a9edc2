package dashboard

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// number formats an integer with thousands separators.
func number(n any) string {
	sign := ""
	digits, negative := strings.CutPrefix(fmt.Sprint(n), "-")
	if negative {
		sign = "−"
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return sign + digits
}

func few(n float64) string {
	if n < 10 {
		return strings.TrimSuffix(strconv.FormatFloat(n, 'f', 1, 64), ".0")
	}
	return number(int(n))
}

// rate formats a number per second.
func rate(n float64) string {
	if n > 10 {
		n = math.Round(n)
	}
	return few(n)
}

// size formats a number of bytes.
func size(bytes int64) string {
	if bytes < 1024 {
		return number(bytes) + " B"
	}
	value, unit := float64(bytes), ""
	for _, unit = range []string{"KiB", "MiB", "GiB", "TiB"} {
		if value /= 1024; value < 1024 {
			break
		}
	}
	return strconv.FormatFloat(value, 'f', 1, 64) + " " + unit
}

// Duration formats d in one or two units, coarser the longer it is.
func (l language) Duration(d time.Duration) string {
	d = max(d, 0)
	switch {
	case d < time.Second:
		return l.T("unit.ms", few(float64(d)/float64(time.Millisecond)))
	case d < time.Minute:
		return l.T("unit.s", few(d.Seconds()))
	}
	units := []struct {
		key string
		of  time.Duration
	}{{"unit.d", 24 * time.Hour}, {"unit.h", time.Hour}, {"unit.min", time.Minute}, {"unit.s", time.Second}}
	for i, u := range units {
		if d < u.of {
			continue
		}
		text := l.T(u.key, number(int64(d/u.of)))
		if rest := d % u.of; i+1 < len(units) && d < 10*u.of && rest >= units[i+1].of {
			text += " " + l.T(units[i+1].key, strconv.Itoa(int(rest/units[i+1].of)))
		}
		return text
	}
	return ""
}

// instant is a time for display: in the browser's zone with scripts, in UTC without.
type instant struct {
	Exact, UTC, Relative string
}

// instant formats t as seen from now.
func (l language) instant(t, now time.Time) *instant {
	if t.IsZero() {
		return nil
	}
	m := &instant{Exact: t.UTC().Format("2006-01-02T15:04:05.000Z"), UTC: t.UTC().Format("2006-01-02 15:04:05 UTC")}
	switch away := t.Sub(now); {
	case t.Year() >= 9999:
		m.Relative = l.T("time.never")
	case away > 0:
		m.Relative = l.T("time.in", l.Duration(away))
	default:
		m.Relative = l.T("time.ago", l.Duration(-away))
	}
	return m
}

// piece is a part of a text of any bytes. A Spelled one replaces something invisible, or something that would
// change the layout around it.
type piece struct {
	Text    string
	Spelled bool
}

// pieces makes the whole text visible. It spells out invalid UTF-8, unprintable characters such as control
// and bidirectional ones, blank letters, and spaces other than single ones between words.
func pieces(text string) []piece {
	visible := strings.ContainsFunc(text, func(r rune) bool { return unicode.IsPrint(r) && r != ' ' && !leavesNoTrace(r) && !unicode.IsMark(r) })
	return spell(text, func(i int, r rune) bool {
		if r == ' ' {
			return i == 0 || i == len(text)-1 || text[i-1] == ' '
		}
		return !visible || leavesNoTrace(r)
	})
}

// lines is pieces for texts with several lines, tabs and runs of spaces.
func lines(text string) []piece {
	return spell(text, func(int, rune) bool { return false }, '\n', '\t')
}

// firstLine returns the first line that is not blank.
func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimLeft(text, " \t\r\n"), "\n")
	return strings.TrimRight(line, " \t\r")
}

// leavesNoTrace reports whether a character is invisible although Unicode calls it a letter or symbol.
func leavesNoTrace(r rune) bool {
	return strings.ContainsRune("\u115f\u1160\u2800\u3164\uffa0", r)
}

// spell spells out unprintable characters, except the allowed ones, and those for which isHidden is true.
func spell(text string, isHidden func(i int, r rune) bool, allowed ...rune) []piece {
	var list []piece
	var part strings.Builder
	spelled := false
	flush := func() {
		if part.Len() > 0 {
			list = append(list, piece{part.String(), spelled})
			part.Reset()
		}
	}
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		broken := r == utf8.RuneError && size == 1
		hidden := broken || !unicode.IsPrint(r) && !slices.Contains(allowed, r) || isHidden(i, r)
		if hidden != spelled {
			flush()
			spelled = hidden
		}
		switch {
		case !hidden:
			part.WriteRune(r)
		case r == ' ':
			part.WriteRune('␣')
		case broken || r < 0x80:
			fmt.Fprintf(&part, `\x%02x`, text[i])
		default:
			fmt.Fprintf(&part, `\u{%x}`, r)
		}
		i += size
	}
	flush()
	return list
}

// typable reports whether a name can be typed into a form: all of it is printable.
func typable(name string) bool {
	return !slices.ContainsFunc(lines(name), func(p piece) bool { return p.Spelled || strings.ContainsAny(p.Text, "\n\t") })
}

// short is how many bytes of a name are shown in lists.
const short = 80

// cut shortens the text to at most n bytes, at the end of a character.
func cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for back := 0; back < utf8.UTFMax && n > back; back++ {
		if utf8.RuneStart(text[n-back]) {
			return text[:n-back]
		}
	}
	return text[:n]
}

//go:embed texts.json
var textsJSON []byte

// texts maps keys to texts in the order of languages.
var texts = func() (t map[string][]string) {
	if err := json.Unmarshal(textsJSON, &t); err != nil {
		panic(err) // the file is embedded
	}
	return t
}()

// language is an index of languages.
type language int

var languages = []string{"en", "zh"}

const (
	english language = iota
	chinese
)

func (l language) Lang() string { return languages[l] }

// T returns the text for a key with its arguments, as far as the text takes any.
func (l language) T(key string, args ...any) string {
	t, ok := texts[key]
	switch {
	case !ok:
		return key
	case len(args) == 0 || !strings.Contains(t[l], "%"):
		return t[l]
	}
	return fmt.Sprintf(t[l], args...)
}

// done reports an action on n subjects; "" if there is no such action.
func (l language) done(action string, n int) string {
	key := "done." + action
	if _, ok := texts[key]; !ok {
		return ""
	}
	return l.T(key, number(n))
}

// languageOf returns the chosen language, or the one that the browser prefers.
func languageOf(chosen, accepted string) language {
	if i := slices.Index(languages, chosen); i >= 0 {
		return language(i)
	}
	// Browsers list the preferred language first.
	if strings.HasPrefix(strings.ToLower(strings.TrimSpace(accepted)), "zh") {
		return chinese
	}
	return english
}
