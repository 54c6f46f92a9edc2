package store

import "github.com/mix-basic/delayer/internal/redisconn"

// PartitionOf is which of n partitions the job of that ID belongs to, as Redis Cluster finds the slot of a key
// (Redis Cluster Specification, "Hash tags"): CRC16(tag) mod n, where tag is what stands between the ID's first {
// and the next }, or, if that is nothing, the ID. So IDs with the same tag are of one partition.
func PartitionOf(id string, n int) int {
	if n == 1 {
		return 0
	}
	return int(redisconn.CRC16(redisconn.TagOf(id))) % n
}
