package dashboard

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// piece is a part of a text that has any bytes. One that is Spelled stands for what can't be seen,
// or would change how its surroundings look.
type piece struct {
	Text    string
	Spelled bool
}

// pieces makes all that is in the text visible: what is no UTF-8 and what is not printable, such as
// control characters and those that turn the direction of writing, is spelled out.
func pieces(text string) []piece { return spell(text, "") }

// lines is pieces of what may have lines and tabs.
func lines(text string) []piece { return spell(text, "\n\t") }

func spell(text, allowed string) []piece {
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
		hidden := broken || !unicode.IsPrint(r) && !strings.ContainsRune(allowed, r)
		if hidden != spelled {
			flush()
			spelled = hidden
		}
		switch {
		case !hidden:
			part.WriteRune(r)
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

// typable reports whether a name can be typed in: all of it is visible.
func typable(name string) bool {
	return !slices.ContainsFunc(pieces(name), func(p piece) bool { return p.Spelled })
}

// short is how many bytes of a name are shown where many are.
const short = 80

// cut shortens the text to n bytes at most, at the end of a character.
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
