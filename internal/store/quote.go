package store

import (
	"fmt"
	"strconv"
	"strings"
)

// maxQuoted is the maximum number of bytes that a message quotes of a name.
const maxQuoted = 200

// Quote quotes a name, an ID or a topic for a message and truncates a long one: names come from outside and must not bloat logs or
// replies.
func Quote(name string) string {
	if len(name) <= maxQuoted {
		return strconv.Quote(name)
	}
	return fmt.Sprintf("%s… (%d bytes)", strconv.Quote(strings.ToValidUTF8(name[:maxQuoted], "?")), len(name))
}
