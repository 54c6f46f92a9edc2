package fleet

import (
	"slices"
	"testing"
	"time"

	"github.com/mix-basic/delayer/internal/store"
)

// Stray jobs are found in any state: those without a partition in a partitioned Redis, and those in partitions of
// earlier layouts.
func TestStrays(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, b *backend) {
		ctx := t.Context()
		strays := func(p *Fleet) []Stray {
			t.Helper()
			found, err := p.Strays(ctx)
			check(t, err)
			return found
		}
		expect := func(p *Fleet, want ...Stray) {
			t.Helper()
			if got := strays(p); !slices.Equal(got, want) {
				t.Errorf("with %v: %+v, want %+v", p.Layout, got, want)
			}
		}
		one := store.New(b.Pool(), store.DefaultPrefix) // like a client of the original, which cannot be refused
		expect(b.partitioned(1))                        // no layout is stored
		sixteen := b.partitioned(16)
		push(t, sixteen.Of("a"), "a", "t", 0)
		expect(sixteen)
		push(t, one, "waits", "t", time.Hour)
		push(t, one, "ready", "t", 0)
		b.Do("ZADD", one.Keys().DeadLetters("dead"), 1000, "dead")
		b.Do("ZADD", one.Keys().DeadTopics(), 1000, "dead")
		expect(sixteen, Stray{1, 3, false})
		for i := range 201 { // one more than the check reads
			b.Do("ZADD", one.Keys().Topics(), 1000, i)
		}
		expect(sixteen, Stray{1, 2, true})
		growing := Layout{16, 1}.Open(b.Pool(), store.DefaultPrefix)
		check(t, growing.Stores[0].Ping(ctx))
		expect(growing) // this layout finds all jobs

		b.Do("FLUSHALL")
		push(t, b.partitioned(16).Of("a"), "a", "t", time.Hour)
		four := Layout{4, 16}.Open(b.Pool(), store.DefaultPrefix)
		expect(four)
		for done := false; !done; {
			var err error
			done, err = four.Migrate(ctx, func(Migrated) {})
			check(t, err)
		}
		check(t, four.MigrationDone(ctx))
		four = b.partitioned(4)
		expect(four)
		hung := store.New(b.Pool(), store.KeysOf(store.DefaultPrefix).Partition(7).Prefix()) // of a program that still uses 16 partitions
		push(t, hung, "late", "t", time.Hour)
		push(t, one, "old", "t", time.Hour)
		expect(four, Stray{1, 1, false}, Stray{16, 1, false})
		for _, before := range []int{1, 16} { // as Command does
			p := Layout{4, before}.Open(b.Pool(), store.DefaultPrefix)
			for done := false; !done; {
				var err error
				done, err = p.Migrate(ctx, func(Migrated) {})
				check(t, err)
			}
			check(t, p.MigrationDone(ctx))
		}
		expect(four)
		if _, err := b.partitioned(16).Strays(ctx); !store.Refused(err) {
			t.Errorf("with another layout: %v", err)
		}
	})
}
