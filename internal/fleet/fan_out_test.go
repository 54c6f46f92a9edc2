package fleet

import (
	"reflect"
	"testing"

	"github.com/mix-basic/delayer/internal/store"
)

// Items keep their order and know their places. Those of a single partition are not copied, since most programs have one.
func TestDivide(t *testing.T) {
	type chunk = Chunk[string]
	a, b := &store.Store{}, &store.Store{}
	for name, c := range map[string]struct {
		items  []string
		stores []*store.Store
		want   []chunk
	}{
		"nothing":        {},
		"one partition":  {[]string{"x", "y"}, []*store.Store{a, a}, []chunk{{a, []string{"x", "y"}, []int{0, 1}}}},
		"two partitions": {[]string{"x", "y", "z"}, []*store.Store{b, a, b}, []chunk{{b, []string{"x", "z"}, []int{0, 2}}, {a, []string{"y"}, []int{1}}}},
	} {
		got := Divide(c.items, func(i int) *store.Store { return c.stores[i] })
		same := len(got) == len(c.want)
		for i := 0; same && i < len(got); i++ {
			same = got[i].Store == c.want[i].Store && reflect.DeepEqual(got[i].Items, c.want[i].Items) && reflect.DeepEqual(got[i].Places, c.want[i].Places)
		}
		if !same {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
		if len(got) == 1 && &got[0].Items[0] != &c.items[0] {
			t.Errorf("%s: the items were copied", name)
		}
	}
}
