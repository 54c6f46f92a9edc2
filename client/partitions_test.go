package client_test

import (
	"testing"

	"github.com/mix-basic/delayer/client"
)

// Who has asked several partitions, and got a job before it had to wait, is not entered as waiting anywhere: the next
// call asks them.
func TestFetchAfterFetchThatDidNotWait(t *testing.T) {
	t.Parallel()
	f := startPartitions(t, 5)
	f.Client = f.open(client.WithPartitions(5))
	for _, topics := range [][]string{{"t", "u"}, {"u"}, {"u"}} {
		f.push("id of "+topics[0], topics[0])
		o := client.FetchOptions{Max: 1, Topics: fetchTopics(topics...), Timeout: hangBound}
		if list, err := f.Fetch(t.Context(), o); err != nil || list[0].ID != "id of "+topics[0] {
			t.Fatalf("fetch of %q: %q, %v", topics, deliveryIDs(list), err)
		}
	}
}
