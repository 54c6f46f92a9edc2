package store

import (
	"fmt"
	"github.com/mix-basic/delayer/internal/redispool"
	"os"
	"regexp"
	"strings"
	"testing"
)

// The table of docs/wire-format.md, by which others write clients, is right.
func TestTagsInDocs(t *testing.T) {
	text, err := os.ReadFile("../../docs/wire-format.md")
	check(t, err)
	rows := regexp.MustCompile("(?m)^\\| `(.+)` \\| `(.+)` \\| 0x.*").FindAllStringSubmatch(string(text), -1)
	if len(rows) < 9 {
		t.Errorf("the table has %d rows", len(rows))
	}
	for _, row := range rows {
		id := row[1]
		want := fmt.Sprintf("| `%s` | `%s` | 0x%04x | %d | %d | %d |", id, redispool.TagOf(id), redispool.CRC16(redispool.TagOf(id)), PartitionOf(id, 16), PartitionOf(id, 5), PartitionOf(id, 1024))
		if got := strings.TrimSpace(row[0]); got != want {
			t.Errorf("the row of %s:\n got %s\nwant %s", id, got, want)
		}
	}
}
