package store

import (
	"fmt"
	"strconv"
	"strings"
)

// maxQuoted is how many bytes of a name a message quotes.
const maxQuoted = 200

// Quote quotes a name, an ID or a topic for a message, and cuts a long one: names come from anybody, and must not bloat logs or replies.
func Quote(name string) string {
	if len(name) <= maxQuoted {
		return strconv.Quote(name)
	}
	return fmt.Sprintf("%s… (%d bytes)", strconv.Quote(strings.ToValidUTF8(name[:maxQuoted], "?")), len(name))
}
