package metrics

import (
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
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

// topics are those with series of their own. Whoever comes first is one, for as long as the
// process lives: so no series ever ends, begins anew, or goes over to another.
type topics struct {
	max    int
	mu     sync.RWMutex
	byName map[string]*topic
	listed []*topic // in the order in which they came
	others *topic   // all further ones
}

// topic is what this process has counted of a topic.
type topic struct {
	label                   []*dto.LabelPair
	pushed, moved, returned atomic.Int64
}

func newTopics(max int) *topics {
	return &topics{max: max, byName: map[string]*topic{}, others: newTopic(others)}
}

func newTopic(label string) *topic {
	name := "topic"
	return &topic{label: []*dto.LabelPair{{Name: &name, Value: &label}}}
}

// of is the topic of that name, or others.
func (t *topics) of(name string) *topic {
	if len(name) > maxLabel {
		return t.others
	}
	t.mu.RLock()
	found, full := t.byName[name], len(t.listed) >= t.max
	t.mu.RUnlock()
	switch {
	case found != nil:
		return found
	case full:
		return t.others
	}
	return t.enter(strings.Clone(name))
}

func (t *topics) enter(name string) *topic {
	t.mu.Lock()
	defer t.mu.Unlock()
	if found := t.byName[name]; found != nil {
		return found
	}
	if len(t.listed) >= t.max {
		return t.others
	}
	entered := newTopic(labelOf(name))
	t.byName[name], t.listed = entered, append(t.listed, entered)
	return entered
}

// all are the topics until now, and others.
func (t *topics) all() []*topic {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return append(t.listed[:len(t.listed):len(t.listed)], t.others)
}

// labelOf is the name itself where that can be a label, and means no other topic. Else it is quoted
// as Go quotes. What would look like a quoted one is quoted, too: so no two topics share a label.
func labelOf(name string) string {
	if !utf8.ValidString(name) || name == others || strings.HasPrefix(name, `"`) {
		return strconv.Quote(name)
	}
	return name
}
