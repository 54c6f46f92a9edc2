package fleet

import (
	"testing"

	"github.com/mix-basic/delayer/internal/store"
)

// Programs of all versions must choose the same mover, whatever the order of the servers.
func TestMover(t *testing.T) {
	servers := []store.ServerState{{ID: "a:1:0"}, {ID: "b:2:0"}, {ID: "c:3:0"}}
	want := "acacacba"
	for _, of := range [][]store.ServerState{servers, {servers[2], servers[0], servers[1]}} {
		got := ""
		for partition := range 8 {
			got += Mover(partition, of).ID[:1]
		}
		if got != want {
			t.Errorf("8 partitions are moved by %s, want %s", got, want)
		}
	}
	if got := Mover(0, nil); got != (store.ServerState{}) {
		t.Errorf("without a server %+v moves", got)
	}
}
