package metrics

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	dto "github.com/prometheus/client_model/go"
)

const (
	// defaultTopics is how many topics have series of their own unless Options say it.
	defaultTopics = 1000
	// maxLabel is how long a topic with series of its own is at most, in bytes.
	maxLabel = 256
	// others is the label of all further topics together.
	others = "other"
)

// topics are those with series of their own. A topic gets a label when it is met, while some are left,
// and gives it back when it is dead: Redis doesn't know it any more, or others were used later, and
// nothing of it was counted since the scrape before. If it comes to life again, its counters begin
// at 0, as those of a process that was started anew: Prometheus adds that up. What was counted meanwhile
// is counted with the others for good, so that no job is counted twice.
type topics struct {
	max    int
	mu     sync.Mutex
	byName map[string]*topic
	others *topic // all further ones
}

// topic is what this process has counted of a topic.
type topic struct {
	label                   []*dto.LabelPair
	pushed, moved, returned int64
	told                    int64 // what was counted in all when it was last seen to
}

func newTopics(max int) *topics {
	return &topics{max: max, byName: map[string]*topic{}, others: newTopic(others)}
}

func newTopic(label string) *topic {
	name := "topic"
	return &topic{label: []*dto.LabelPair{{Name: &name, Value: &label}}}
}

// count has what happens to the topic of that name, or to the others, counted.
func (t *topics) count(name string, count func(*topic)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	count(t.enter(name))
}

// enter is the topic of that name, which it enters if there is a label left; or the others.
func (t *topics) enter(name string) *topic {
	if t.byName[name] == nil && len(name) <= maxLabel && len(t.byName) < t.max {
		name = strings.Clone(name)
		t.byName[name] = newTopic(labelOf(name))
	}
	return cmp.Or(t.byName[name], t.others)
}

// live says which topics live: those that were used last, the latest last. The others give back their
// labels, and those that have none get these, the latest first.
func (t *topics) live(used []string) {
	alive := make(map[string]bool, len(used))
	for _, name := range used {
		alive[name] = true
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for name, topic := range t.byName {
		counted := topic.counted()
		if !alive[name] && counted == topic.told {
			delete(t.byName, name)
		}
		topic.told = counted
	}
	for i := len(used) - 1; i >= 0 && len(t.byName) < t.max; i-- {
		t.enter(used[i])
	}
}

func (t *topic) counted() int64 { return t.pushed + t.moved + t.returned }

// of is the topic of that name, or the others.
func (t *topics) of(name string) *topic {
	t.mu.Lock()
	defer t.mu.Unlock()
	return cmp.Or(t.byName[name], t.others)
}

// all are the topics that have labels, by name, and the others. The caller holds mu.
func (t *topics) all() []*topic {
	all := make([]*topic, 0, len(t.byName)+1)
	for _, name := range slices.Sorted(maps.Keys(t.byName)) {
		all = append(all, t.byName[name])
	}
	return append(all, t.others)
}

// labelOf is the name itself where that can be a label, and means no other topic. Else it is quoted
// as Go quotes. What would look like a quoted one is quoted, too: so no two topics share a label.
func labelOf(name string) string {
	if !utf8.ValidString(name) || name == others || strings.HasPrefix(name, `"`) {
		return strconv.Quote(name)
	}
	return name
}
