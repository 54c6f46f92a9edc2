package server

import (
	"fmt"
	"testing"

	"github.com/mix-basic/delayer/internal/store"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// The log reports once how many ready jobs of all partitions cannot be reserved because they lack their limit's tag,
// even with only the daemon's permissions. It leaves out topics without such jobs and limits without a tag.
func TestUntaggedIsLogged(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.partitioned(4)
	check(t, p.SetLimit(t.Context(), "t", store.Limit{Concurrency: 4, Tag: "vip"}))
	check(t, p.SetLimit(t.Context(), "other", store.Limit{Concurrency: 4, Tag: "vip"}))
	check(t, p.SetLimit(t.Context(), "untagged", store.Limit{Concurrency: 4}))
	elsewhere := 0
	for i := range 30 {
		id := fmt.Sprint(i)
		w.pushIn(p, id, "t", 0)
		w.pushIn(p, "u"+id, "untagged", 0)
		w.pushIn(p, fmt.Sprintf("{vip}%d", i), "other", 0)
		if p.Of(id) != p.Of("{vip}") {
			elsewhere++
		}
	}
	o := w.server.options
	w.SetUser(redistest.Rights(t, "daemon"))
	w.server = New(w.UserPool(), o)
	want := fmt.Sprintf("Ready jobs without the tag \"vip\" of their topic's limit, which nobody will get: %d; set a limit without a tag, or push them again with that tag in their IDs, Topic: t", elsewhere)
	for range 3 {
		check(t, w.server.Pass(t.Context()))
		w.log.expectErrors(t, want)
	}
	w.server.untagged.Forget("t")
	check(t, w.server.Pass(t.Context()))
	w.log.expectErrors(t, want, want)
}
