package config

import (
	"strings"
	"unicode"
)

// nearest is the candidate that a mistyped name most likely stands for, or ""
// when none is near: about one slip in three letters is allowed.
func nearest(name string, candidates []string) string {
	best, fewest := "", 0
	for _, c := range candidates {
		slips := editDistance(normalized(name), normalized(c))
		if slips <= max(1, len(c)/3) && (best == "" || slips < fewest) {
			best, fewest = c, slips
		}
	}
	return best
}

// normalized makes Max-Idle and "max idle" the same as max_idle, and drops what
// can't be seen.
func normalized(name string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '-' || r == ' ':
			return '_'
		case !unicode.IsPrint(r):
			return -1
		}
		return unicode.ToLower(r)
	}, strings.TrimSpace(name))
}

// editDistance counts the letters to add, drop, replace or swap with their
// neighbour (optimal string alignment).
func editDistance(a, b string) int {
	if len(a) > 2*len(b)+8 {
		return len(a) // far off whatever it says; a long line must not cost its length squared
	}
	twoUp, up, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		twoUp, up, row = up, row, twoUp
		row[0] = i
		for j := 1; j <= len(b); j++ {
			replace := up[j-1]
			if a[i-1] != b[j-1] {
				replace++
			}
			row[j] = min(up[j]+1, row[j-1]+1, replace)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], twoUp[j-2]+1)
			}
		}
	}
	return row[len(b)]
}
