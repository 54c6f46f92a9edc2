package client_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// Removals that share a call each get their own state, and only RemoveUnlessReserved leaves a reserved job alone.
func TestRemoveInACrowd(t *testing.T) {
	f := start(t)
	states := []client.State{client.StateWaiting, client.StateReady, client.StateReserved, client.StateDead, ""}
	seed := map[client.State]func(id, topic string){
		client.StateWaiting:  func(id, topic string) { f.put(client.Message{ID: id, Topic: topic, Body: "b"}, time.Hour) },
		client.StateReady:    func(id, topic string) { f.push(id, topic) },
		client.StateReserved: func(id, topic string) { f.push(id, topic); f.reserve(topic) },
		client.StateDead: func(id, topic string) {
			f.push(id, topic)
			check(t, f.reserve(topic).Bury(t.Context(), errors.New("why")))
		},
		"": func(string, string) {},
	}
	var left []string
	var calls sync.WaitGroup
	begin := make(chan struct{})
	for n := range 100 {
		state, unless := states[n%len(states)], n%2 == 0
		id := fmt.Sprint(n)
		seed[state](id, "t"+string(state))
		calls.Go(func() {
			<-begin
			remove := f.Remove
			if unless {
				remove = f.RemoveUnlessReserved
			}
			was, err := remove(t.Context(), id)
			if unless && state == client.StateReserved {
				if was != "" || !errors.Is(err, client.ErrReserved) {
					t.Errorf("%s, unless it is reserved: %q, %v", id, was, err)
				}
			} else if was != state || err != nil {
				t.Errorf("%s: %q, %v, want %q", id, was, err, state)
			}
		})
		if unless && state == client.StateReserved {
			left = append(left, id)
		}
	}
	close(begin)
	calls.Wait()
	want := redistest.State{Reserved: left, Counts: map[string]string{"treserved": fmt.Sprint(len(left))}, Buckets: buckets{}}
	for _, id := range left {
		want.Buckets[id] = "treserved body"
	}
	f.Expect(want)
}
