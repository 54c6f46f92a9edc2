package inspect

import (
	"context"
	"fmt"
	"regexp"
	"time"

	"github.com/mix-basic/delayer/internal/fleet"
	"github.com/mix-basic/delayer/internal/store"
)

// DeadGroups are a topic's dead letters grouped by their errors.
type DeadGroups struct {
	Groups []DeadGroup // the group with the newest letter first
	Looked int         // how many letters were looked at, the newest ones
	More   bool        // whether there are older ones that were not looked at
}

// DeadGroup is dead letters whose reasons and errors differ only in numbers.
type DeadGroup struct {
	Reason, Error  string // of the newest letter, the first 1 KiB
	Differ         bool   // those of others are not the same
	Letters        int
	Newest, Oldest time.Time // when they were buried
	Example        string    // the ID of the newest
}

// cause is a reason and an error without their numbers.
type cause struct{ reason, err string }

func causeOf(reason, err string) cause { return cause{withoutNumbers(reason), withoutNumbers(err)} }

// numbers matches decimal numbers and, after 0x, hexadecimal ones.
var numbers = regexp.MustCompile(`0x[0-9a-fA-F]+|[0-9]+`)

// withoutNumbers replaces each number of the text by #. A long text may have been cut within or between numbers of any length, so only its
// beginning counts.
func withoutNumbers(text string) string {
	const long, sure = 1000, 300
	plain := numbers.ReplaceAllLiteralString(text, "#")
	if len(text) >= long {
		plain = plain[:min(len(plain), sure)]
	}
	return plain
}

// DeadGroups groups up to most of the topic's newest dead letters.
func (o *Inspector) DeadGroups(ctx context.Context, topic string, most int) (DeadGroups, error) {
	f := DeadFilter{Topic: topic}
	if topic == "" {
		return DeadGroups{}, dead("group", f, errNoTopic)
	}
	var found DeadGroups
	places := map[cause]int{} // among the Groups
	for reader := o.fleet.ReadDead(fleet.DeadRange{Topic: topic}); ; {
		step, err := reader.Next(ctx)
		if err != nil {
			return DeadGroups{}, dead("group", f, err)
		}
		if len(step) == 0 {
			return found, nil
		}
		for _, l := range step {
			if found.Looked == most {
				found.More = true
				return found, nil
			}
			found.Looked++
			is := causeOf(l.Reason, l.Error)
			place, known := places[is]
			if !known {
				place = len(found.Groups)
				places[is] = place
				found.Groups = append(found.Groups, DeadGroup{Reason: l.Reason, Error: l.Error, Newest: l.At, Example: l.ID})
			}
			group := &found.Groups[place]
			group.Letters++
			group.Differ = group.Differ || l.Reason != group.Reason || l.Error != group.Error
			group.Oldest = l.At
		}
	}
}

// DeadLately returns for each topic when its newest dead letter was buried, and how many were since a time, in the readable partitions.
// It costs Redis a few microseconds for each topic.
func (o *Inspector) DeadLately(ctx context.Context, topics []string, since time.Time) ([]store.DeadLately, error) {
	parts, err := gather(ctx, o, o.none(), func(ctx context.Context, _ int, s *store.Store) ([]store.DeadLately, error) {
		return s.DeadLately(ctx, topics, since)
	})
	if err != nil {
		return nil, fmt.Errorf("read dead letters: %w", err)
	}
	all := make([]store.DeadLately, len(topics))
	for _, part := range parts {
		for k, of := range part {
			all[k].Since = Plus(all[k].Since, of.Since)
			if of.Newest.After(all[k].Newest) {
				all[k].Newest = of.Newest
			}
		}
	}
	return all, nil
}
