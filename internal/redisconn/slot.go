package redisconn

import "strings"

const slots = 16384

// TagOf is the part of a key that says which slot it is in: what stands between the first { and the next }, or,
// if that is nothing, all of it (Redis Cluster Specification, "Hash tags").
func TagOf(key string) string {
	_, behind, _ := strings.Cut(key, "{")
	if tag, _, closed := strings.Cut(behind, "}"); closed && tag != "" {
		return tag
	}
	return key
}

// CRC16 is the checksum that Redis Cluster uses: CRC-16/XMODEM, with the polynomial 0x1021, from 0 on.
func CRC16(text string) (sum uint16) {
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

// SlotOf is the slot that a key is in.
func SlotOf(key string) int { return int(CRC16(TagOf(key))) % slots }
