package fleet

import (
	"fmt"
	"strings"

	"github.com/mix-basic/delayer/internal/store"
)

// Layout is the number of partitions of a prefix, and the number in the previous layout as long as jobs may be left there;
// otherwise 0. Partition 0 stores it as soon as a program with several partitions has connected.
type Layout struct{ Partitions, Previous int }

// Check returns why this layout is impossible for keys with that prefix.
func (l Layout) Check(prefix string) error {
	most := max(l.Partitions, l.Previous)
	switch {
	case l.Partitions < 0 || l.Partitions > MaxPartitions:
		return fmt.Errorf("partitions: %d is not from 1 to %d", l.Partitions, MaxPartitions)
	case l.Previous < 0 || l.Previous > MaxPartitions:
		return fmt.Errorf("previous_partitions: %d is not from 1 to %d", l.Previous, MaxPartitions)
	case l.Previous > 0 && l.Previous == max(l.Partitions, 1):
		return fmt.Errorf("previous_partitions: %d is what partitions is; want the previous number, or none", l.Previous)
	case most > 1 && strings.ContainsAny(prefix, "{}"):
		return fmt.Errorf("prefix: %s has braces, which the keys of %d partitions have themselves", store.Quote(prefix), most)
	}
	return nil
}

// keys returns the keys of the layout's partitions, then those of the old ones that are not among them.
func (l Layout) keys(of store.Keys) (all []store.Keys) {
	known := map[store.Keys]bool{}
	for _, n := range []int{max(l.Partitions, 1), l.Previous} {
		for i := range n {
			keys := of
			if n > 1 {
				keys = of.Partition(i)
			}
			if !known[keys] {
				known[keys] = true
				all = append(all, keys)
			}
		}
	}
	return all
}

// oldPlace is the place, among all partitions, of the one with that number in the previous layout.
func (l Layout) oldPlace(number int) int {
	switch {
	case l.Previous == 1:
		return l.Partitions
	case l.Partitions <= 1:
		return number + 1
	}
	return number
}

// oldNumber is the number of an old partition in the previous layout.
func (l Layout) oldNumber(place int) int {
	if l.Previous == 1 {
		return 0
	}
	if l.Partitions <= 1 {
		return place - 1
	}
	return place
}

// LayoutError is returned to a program whose layout differs from the one stored in Redis. It wraps store.ErrNotAdmitted.
type LayoutError struct {
	Own  Layout // the program's
	Kept Layout
	Key  string // where Kept is stored
}

// Error names both layouts.
func (e *LayoutError) Error() string {
	own, kept := e.Own, e.Kept
	switch {
	case own.Partitions == kept.Partitions && own.Previous == 0:
		return fmt.Sprintf("previous_partitions is missing: jobs may be left in %s of the previous layout (%s); want previous_partitions = %d here until delayer migrate says that there are none",
			many(kept.Previous), e.Key, kept.Previous)
	case kept == Layout{Partitions: 1}:
		return fmt.Sprintf("partitions is %d here, but there are jobs of a single partition (%s): want previous_partitions = 1 as well, so that they are found, and then delayer migrate",
			own.Partitions, e.Key)
	case own.Previous == 0 && kept.Previous == 0:
		return fmt.Sprintf("partitions is %d here, but %d in Redis (%s): want the same number in all programs", own.Partitions, kept.Partitions, e.Key)
	}
	return fmt.Sprintf("here it is %s, but in Redis %s (%s): want the same in all programs, and another number only when delayer migrate is done with the last one",
		own, kept, e.Key)
}

// Unwrap returns store.ErrNotAdmitted.
func (e *LayoutError) Unwrap() error { return store.ErrNotAdmitted }

// String describes the layout in words.
func (l Layout) String() string {
	if l.Previous == 0 {
		return many(l.Partitions)
	}
	return fmt.Sprintf("%s, previously %d", many(l.Partitions), l.Previous)
}

func many(partitions int) string {
	if partitions == 1 {
		return "1 partition"
	}
	return fmt.Sprintf("%d partitions", partitions)
}
