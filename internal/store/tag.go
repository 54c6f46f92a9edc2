package store

import "strings"

// PartitionOf is which of n partitions the job of that ID belongs to: CRC16(tag) mod n, as Redis Cluster finds
// the slot of a key (Redis Cluster Specification, "Hash tags").
func PartitionOf(id string, n int) int {
	if n == 1 {
		return 0
	}
	return int(crc16(tagOf(id))) % n
}

// tagOf is what stands between the ID's first { and the next }, or, if that is nothing, the ID. So IDs with the
// same tag are of one partition.
func tagOf(id string) string {
	if _, behind, found := strings.Cut(id, "{"); found {
		if tag, _, closed := strings.Cut(behind, "}"); closed && tag != "" {
			return tag
		}
	}
	return id
}

// crc16 is the checksum that Redis Cluster uses: CRC-16/XMODEM, with the polynomial 0x1021, from 0 on.
func crc16(text string) (sum uint16) {
	for i := range len(text) {
		sum = sum<<8 ^ crc16Table[byte(sum>>8)^text[i]]
	}
	return sum
}

var crc16Table = func() (table [256]uint16) {
	for i := range table {
		sum := uint16(i) << 8
		for range 8 {
			carry := sum&0x8000 != 0
			if sum <<= 1; carry {
				sum ^= 0x1021
			}
		}
		table[i] = sum
	}
	return table
}()
