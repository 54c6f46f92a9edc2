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
		if len(name) > 2*len(c)+8 {
			continue // far off whatever it says; a long line must not cost its length squared
		}
		slips := editDistance(normalized(name), c)
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
	}, strings.Trim(name, " \"'`"))
}

// editDistance counts the letters to add, drop, replace or swap with their
// neighbour (optimal string alignment).
func editDistance(a, b string) int {
	slips := make([][]int, len(a)+1) // between the first i letters of a and the first j of b
	for i := range slips {
		slips[i] = make([]int, len(b)+1)
		for j := range slips[i] {
			switch {
			case i == 0 || j == 0:
				slips[i][j] = i + j
			case a[i-1] == b[j-1]:
				slips[i][j] = slips[i-1][j-1]
			default:
				slips[i][j] = 1 + min(slips[i-1][j], slips[i][j-1], slips[i-1][j-1])
				if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
					slips[i][j] = min(slips[i][j], 1+slips[i-2][j-2])
				}
			}
		}
	}
	return slips[len(a)][len(b)]
}
