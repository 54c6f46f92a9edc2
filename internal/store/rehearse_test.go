package store

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mix-basic/delayer/internal/testing/redistest"
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

// A command that this Redis has renamed is named.
func TestRenamedCommand(t *testing.T) {
	t.Parallel()
	push := func(after time.Duration) func(b *backend) error {
		return func(b *backend) error {
			return b.push(t.Context(), Job{ID: "a", Topic: "t", Body: "b"}, Due{After: after}, kept, Replace)
		}
	}
	for command, call := range map[string]func(b *backend) error{
		"RENAME": func(b *backend) error { _, err := b.Pause("t", time.Hour, "").Do(t.Context()); return err },
		"HSET":   push(time.Hour),
		"TYPE":   push(0),
	} {
		f := redistest.Start(t, "--rename-command", command, "").Fixture
		b := newBackend(f, f.Pool())
		got, err := b.Rehearse("rehearsed").Do(t.Context())
		if err != nil || !slices.ContainsFunc(got.Lacking, func(l Lack) bool { return l.Command == command }) {
			t.Errorf("rehearsed: %+v, %v, want one that lacks %s", got, err, command)
		}
		if err := call(b); !Refused(err) || !strings.Contains(err.Error(), command) {
			t.Errorf("without %s: %v", command, err)
		}
	}
}
