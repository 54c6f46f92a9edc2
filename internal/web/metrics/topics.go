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
	// defaultTopics is the default of Options.Topics.
	defaultTopics = 1000
	// maxLabel is the maximum length in bytes of a topic with its own series.
	maxLabel = 256
	// others is the label of all other topics.
	others = "other"
)

// topics assigns labels. A topic gets one when it is first seen, while some are left, and loses it when it is
// dead: Redis no longer knows it or used other topics later, and nothing was counted for it since the
// previous scrape. If it comes back its counters start at 0, like those of a restarted process, which
// Prometheus handles. Jobs counted meanwhile stay under "other", so that none is counted twice.
type topics struct {
	max    int
	mu     sync.Mutex
	byName map[string]*topic
	others *topic // all topics without a label
}

// topic has the counters of a topic.
type topic struct {
	label                   []*dto.LabelPair
	pushed, moved, returned int64
	told                    int64 // total at the previous scrape
}

func newTopics(max int) *topics {
	return &topics{max: max, byName: map[string]*topic{}, others: newTopic(others)}
}

func newTopic(name string) *topic { return &topic{label: []*dto.LabelPair{label("topic", name)}} }

// count calls count with the topic's counters, or those of the others.
func (t *topics) count(name string, count func(*topic)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	count(t.add(name))
}

// add returns the topic's counters, with a new label if one is left, or else the others.
func (t *topics) add(name string) *topic {
	if t.byName[name] == nil && len(name) <= maxLabel && len(t.byName) < t.max {
		name = strings.Clone(name)
		t.byName[name] = newTopic(labelOf(name))
	}
	return cmp.Or(t.byName[name], t.others)
}

// live updates the labels: used lists the live topics, the last used last. Dead topics lose their labels to
// live ones, the last used first.
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
		t.add(used[i])
	}
}

func (t *topic) counted() int64 { return t.pushed + t.moved + t.returned }

// of returns the topic's counters, or those of the others.
func (t *topics) of(name string) *topic {
	t.mu.Lock()
	defer t.mu.Unlock()
	return cmp.Or(t.byName[name], t.others)
}

// all returns the labelled topics by name, and the others. The caller holds mu.
func (t *topics) all() []*topic {
	all := make([]*topic, 0, len(t.byName)+1)
	for _, name := range slices.Sorted(maps.Keys(t.byName)) {
		all = append(all, t.byName[name])
	}
	return append(all, t.others)
}

// labelOf returns the name if it is a valid, unambiguous label, else quotes it like Go. Names that look
// quoted are quoted too, so no two topics share a label.
func labelOf(name string) string {
	if !utf8.ValidString(name) || name == others || strings.HasPrefix(name, `"`) {
		return strconv.Quote(name)
	}
	return name
}
