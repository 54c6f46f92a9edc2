package store

import (
	"slices"
	"strings"
	"testing"
)

// A rehearsal reports each command that a feature lacks, and leaves no keys behind.
func TestRehearse(t *testing.T) {
	t.Parallel()
	b, _ := onRedis(t, alone)
	for _, c := range []struct {
		lacks string
		want  []Lack
	}{
		{"", nil},
		{"hincrby", []Lack{{"limits", "HINCRBY"}, {"schedules", "HINCRBY"}}},
		{"rename pttl", []Lack{{"paused topics", "RENAME"}, {"schedules with the overlap follow", "PTTL"}}},
	} {
		rights := "~* &* +@all"
		for command := range strings.FieldsSeq(c.lacks) {
			rights += " -" + command
		}
		b.SetUser(rights)
		got, err := b.user().Rehearse("rehearsed").Do(t.Context())
		if err != nil || got.CantPublish != nil || !slices.Equal(got.Lacking, c.want) {
			t.Errorf("without %q: %+v, %v, want %v", c.lacks, got, err, c.want)
		}
	}
	if keys := b.Strings("KEYS", "*"); len(keys) > 0 {
		t.Errorf("left the keys %q", keys)
	}
}
