package fleet

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/mix-basic/delayer/internal/store"
)

// Mover returns the server that should move the partition's jobs, chosen among those alive by rendezvous hashing: if one leaves, only its
// partitions change, and the others share them. Without servers it is zero.
func Mover(partition int, alive []store.ServerState) (mover store.ServerState) {
	var most uint64
	for i, s := range alive {
		hash := sha256.Sum256(fmt.Append(nil, partition, " ", s.ID))
		wants := binary.BigEndian.Uint64(hash[:])
		if i == 0 || wants > most {
			mover, most = s, wants
		}
	}
	return mover
}
