package store

import (
	"fmt"
	"strconv"
	"strings"
)

// maxQuoted is how many bytes of a name a message quotes.
const maxQuoted = 200

// Quote is a name, an ID or a topic, as messages have it: quoted, and cut if it is long. Names come from
// anybody, and a log line or an answer must not grow with them.
func Quote(name string) string {
	if len(name) <= maxQuoted {
		return strconv.Quote(name)
	}
	return fmt.Sprintf("%s… (%d bytes)", strconv.Quote(strings.ToValidUTF8(name[:maxQuoted], "?")), len(name))
}
