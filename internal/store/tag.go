package store

import "github.com/mix-basic/delayer/internal/redisconn"

// PartitionOf returns the partition, of n, of the job with that ID, computed like a key's slot in Redis Cluster (Redis Cluster
// Specification, "Hash tags"): CRC16(tag) mod n, where the tag is the text between the ID's first { and the next }, or the whole ID if
// that is empty.
func PartitionOf(id string, n int) int {
	if n == 1 {
		return 0
	}
	return int(redisconn.CRC16(redisconn.TagOf(id))) % n
}
