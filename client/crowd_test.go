package client_test

import (
	"fmt"
	"testing"

	"github.com/mix-basic/delayer/client"
)

// opened returns how many connections were ever opened.
func (f *fixture) opened() int {
	f.TB.Helper()
	return f.InfoNumber("stats", "total_connections_received")
}

// Many callers that arrive at once open only a few connections, and one of these is subscribed for all topics. Each
// caller gets a job.
func TestCrowdSharesConnections(t *testing.T) {
	const callers = 1000
	for name, topicsOf := range map[string]func(n int) []string{
		"one topic":         func(int) []string { return []string{"t"} },
		"some topics":       func(n int) []string { return []string{fmt.Sprint(n % 200)} },
		"one topic each":    func(n int) []string { return []string{fmt.Sprint(n)} },
		"three topics each": func(n int) []string { return []string{fmt.Sprint(n), fmt.Sprint(n, "b"), fmt.Sprint(n, "c")} },
	} {
		t.Run(name, func(t *testing.T) {
			f := start(t, alone, undivided)
			before := f.opened()
			arrive := make(chan struct{})
			results := many(callers, func(n int) (client.Message, error) {
				<-arrive
				topics := topicsOf(n)
				return f.BPop(t.Context(), 0, topics[0], topics[1:]...)
			})
			close(arrive)
			crowds := map[string]int{}
			for n := range callers {
				crowds[topicsOf(n)[0]]++
			}
			for topic, crowd := range crowds {
				f.waits(f.Client, topic, crowd)
			}
			most := client.MaxTakeCalls + 2 // it subscribes, and checks
			if f.Clustered {
				most += client.MaxTakeCalls + 1 // it asks for the slot owners and then regroups
			}
			if n := f.opened() - before; n > most {
				t.Errorf("%d connections were opened, want at most %d", n, most)
			}
			producer := &fixture{f.open(), f.Server}
			for n := range callers {
				topics := topicsOf(n)
				producer.push(fmt.Sprint(n), topics[len(topics)-1])
			}
			expectOnce(t, results, callers)
			f.Expect(state{})
		})
	}
}
