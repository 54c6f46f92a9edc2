// Package docs tests the documents: their samples work, and what they refer to exists.
package docs

import (
	"regexp"
	"strings"
)

// Sample is a piece of code or configuration in a document.
type Sample struct {
	Language string // what follows the opening fence
	Line     int    // of the opening fence
	Text     string
}

var sample = regexp.MustCompile("(?ms)^( *)```([^\n]*)\n(.*?)^ *```$")

// Samples returns the samples of a document in order, without the indentation of lists.
func Samples(document string) (samples []Sample) {
	for _, at := range sample.FindAllStringSubmatchIndex(document, -1) {
		indent, text := document[at[2]:at[3]], document[at[6]:at[7]]
		text = strings.TrimPrefix(strings.ReplaceAll("\n"+text, "\n"+indent, "\n"), "\n")
		samples = append(samples, Sample{document[at[4]:at[5]], 1 + strings.Count(document[:at[0]], "\n"), text})
	}
	return samples
}
