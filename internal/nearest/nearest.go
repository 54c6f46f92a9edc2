// Package nearest finds what a mistyped word most likely stands for.
package nearest

import (
	"regexp"
	"strings"
)

var word = regexp.MustCompile(`^[\w-]+$`)

// Of returns the candidate that is nearest to a mistyped word, or "" when none is near: about one slip in three letters is allowed.
// Letter case does not count, and - and _ are the same.
func Of(name string, candidates []string) (best string) {
	fewest := 0
	for _, c := range candidates {
		n := slips(plain(name), plain(c))
		if word.MatchString(name) && n <= max(1, len(c)/3) && (best == "" || n < fewest) {
			best, fewest = c, n
		}
	}
	return best
}

func plain(name string) string { return strings.ToLower(strings.ReplaceAll(name, "-", "_")) }

// slips counts the letters to add, drop or replace, in whatever order they stand.
func slips(written, meant string) int {
	excess := 0
	for _, letter := range written {
		if rest := strings.Replace(meant, string(letter), "", 1); rest != meant {
			meant = rest
		} else {
			excess++
		}
	}
	return max(excess, len(meant))
}
