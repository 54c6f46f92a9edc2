package store

import (
	"testing"

	"github.com/mix-basic/delayer/internal/redisconn"
)

// The checksum, and so the partition, matches Redis Cluster: CLUSTER KEYSLOT is the checksum mod 16384.
func TestPartitionOf(t *testing.T) {
	for _, c := range []struct {
		id, tag string
		crc     uint16
		of16    int
	}{
		{"123456789", "123456789", 0x31c3, 3},
		{"", "", 0, 0},
		{"order-1", "order-1", 0x62c2, 2},
		{"{order}-1", "order", 0x3e99, 9},
		{"a{order}b{c}", "order", 0x3e99, 9},
		{"{}order", "{}order", 0xfa08, 8},
		{"a{order", "a{order", 0xb3dc, 12},
		{"a}{order}", "order", 0x3e99, 9},
		{"{{order}}", "{order", 0xb8a7, 7},
	} {
		if got := redisconn.TagOf(c.id); got != c.tag {
			t.Errorf("%q: the tag is %q, want %q", c.id, got, c.tag)
		}
		if got := redisconn.CRC16(c.tag); got != c.crc {
			t.Errorf("%q: the checksum is %#x, want %#x", c.id, got, c.crc)
		}
		if got := PartitionOf(c.id, 16); got != c.of16 {
			t.Errorf("%q: it belongs to partition %d, want %d", c.id, got, c.of16)
		}
	}
}
