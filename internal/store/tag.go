package store

import "github.com/mix-basic/delayer/internal/redisconn"

// PartitionOf returns which of n partitions has the job of that ID, as Redis Cluster finds the slot of a key (Redis Cluster Specification,
// "Hash tags"): CRC16(tag) mod n, where the tag is the text between the ID's first { and the next }, or the whole ID if that is empty.
func PartitionOf(id string, n int) int {
	if n == 1 {
		return 0
	}
	return int(redisconn.CRC16(redisconn.TagOf(id))) % n
}
