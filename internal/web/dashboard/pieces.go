package dashboard

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

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
