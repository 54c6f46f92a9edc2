package store

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// A topic whose name is longer than all names that one script takes gets a script of its own.
func TestStatsOfLongTopics(t *testing.T) {
	b, _ := onRedis(t)
	long := strings.Repeat("a", statsBytes+1)
	b.seed(t, ready("1", long), ready("2", "t"), ready("3", "t"))
	ctx, cancel := context.WithTimeout(t.Context(), redistest.HangBound)
	defer cancel()
	stats, err := b.Stats(ctx, []string{long, "t", "empty", long + "b"}, false)
	if err != nil {
		t.Fatal(err)
	}
	var counts []int
	for _, topic := range stats.Topics {
		counts = append(counts, topic.Ready)
	}
	if want := []int{1, 2, 0, 0}; !slices.Equal(counts, want) {
		t.Errorf("ready jobs by topic: %v, want %v", counts, want)
	}
}
