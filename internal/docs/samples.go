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
	File     string // that the first line names, as in "// order.go"; empty if it names none
}

var (
	sample   = regexp.MustCompile("(?ms)^( *)```([^\n]*)\n(.*?)^ *```$")
	fileName = regexp.MustCompile(`^(?:<\?php )?// (\w+\.\w+)\n`)
)

// Samples returns the samples of a document in order, without the indentation of lists.
func Samples(document string) (samples []Sample) {
	for _, at := range sample.FindAllStringSubmatchIndex(document, -1) {
		indent, text := document[at[2]:at[3]], document[at[6]:at[7]]
		text = strings.TrimPrefix(strings.ReplaceAll("\n"+text, "\n"+indent, "\n"), "\n")
		s := Sample{Language: document[at[4]:at[5]], Line: 1 + strings.Count(document[:at[0]], "\n"), Text: text}
		if named := fileName.FindStringSubmatch(text); named != nil {
			s.File = named[1]
		}
		samples = append(samples, s)
	}
	return samples
}
