package store

import (
	"slices"
	"testing"
	"time"
)

// Jobs that nobody looks for are found, whatever state they are in: those of a single partition beside several, and those in partitions that there once were.
func TestStrays(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, b *backend) {
		ctx := t.Context()
		strays := func(p Partitions) []Stray {
			t.Helper()
			found, err := p.Strays(ctx)
			check(t, err)
			return found
		}
		expect := func(p Partitions, want ...Stray) {
			t.Helper()
			if got := strays(p); !slices.Equal(got, want) {
				t.Errorf("with %v: %+v, want %+v", p.layout(), got, want)
			}
		}
		one := New(b.Pool(), DefaultPrefix) // which nobody refuses, as a client of the original
		push := func(s *Store, id string, due Due) {
			t.Helper()
			_, err := s.Push([]Delayed{{Job: Job{id, "t", "b"}, Due: due, Terms: Terms{Lifetime: time.Hour, Policy: Replace}}}).Do(ctx)
			check(t, err)
		}
		expect(b.partitioned(1)) // there is no layout
		sixteen := b.partitioned(16)
		push(sixteen.Of("a"), "a", Due{})
		expect(sixteen)
		push(one, "waits", Due{After: time.Hour})
		push(one, "ready", Due{})
		b.Do("ZADD", one.keys.DeadLetters("dead"), 1000, "dead")
		b.Do("ZADD", one.keys.DeadTopics(), 1000, "dead")
		expect(sixteen, Stray{1, 3, false})
		for i := range strayTopics + 1 {
			b.Do("ZADD", one.keys.Topics(), 1000, i)
		}
		expect(sixteen, Stray{1, 2, true})
		growing := Layout{16, 1}.Open(b.Pool(), DefaultPrefix)
		check(t, growing[0].Ping(ctx))
		expect(growing) // it looks for all of them

		b.Do("FLUSHALL")
		push(b.partitioned(16).Of("a"), "a", Due{After: time.Hour})
		four := Layout{4, 16}.Open(b.Pool(), DefaultPrefix)
		expect(four)
		for done := false; !done; {
			var err error
			done, err = four.Migrate(ctx, func(Migrated) {})
			check(t, err)
		}
		check(t, four.MigrationDone(ctx))
		four = b.partitioned(4)
		expect(four)
		hung := New(b.Pool(), Keys{DefaultPrefix}.partition(7).prefix) // of a program that still knows of 16
		push(hung, "late", Due{After: time.Hour})
		push(one, "old", Due{After: time.Hour})
		expect(four, Stray{1, 1, false}, Stray{16, 1, false})
		for _, before := range []int{1, 16} { // as Command does
			p := Layout{4, before}.Open(b.Pool(), DefaultPrefix)
			for done := false; !done; {
				var err error
				done, err = p.Migrate(ctx, func(Migrated) {})
				check(t, err)
			}
			check(t, p.MigrationDone(ctx))
		}
		expect(four)
		if _, err := b.partitioned(16).Strays(ctx); !Refused(err) {
			t.Errorf("with another layout: %v", err)
		}
	})
}
