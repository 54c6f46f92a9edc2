package operator

import (
	"context"
	"time"

	"github.com/mix-basic/delayer/internal/store"
)

// DeadGroups are a topic's dead letters by what went wrong.
type DeadGroups struct {
	Groups []DeadGroup // the one with the newest letter first
	Looked int         // how many letters were looked at, the newest ones
	More   bool        // whether there are older ones that were not looked at
}

// DeadGroup are the dead letters with the same reason and error.
type DeadGroup struct {
	Reason, Error  string // their first 1 KiB
	Letters        int
	Newest, Oldest time.Time // when they were buried
	Example        string    // the ID of the newest
}

// DeadGroups groups the topic's newest dead letters, most of them at most.
func (o *Operator) DeadGroups(ctx context.Context, topic string, most int) (DeadGroups, error) {
	f := DeadFilter{Topic: topic}
	if topic == "" {
		return DeadGroups{}, dead("group", f, errNoTopic)
	}
	var found DeadGroups
	type cause struct{ reason, err string }
	places := map[cause]int{} // among the Groups
	for reader := o.partitions.ReadDead(store.DeadRange{Topic: topic}); ; {
		step, err := reader.Next(ctx)
		if err != nil {
			return DeadGroups{}, dead("group", f, err)
		}
		if len(step) == 0 {
			return found, nil
		}
		for _, l := range reader.InOrder(step) {
			if found.Looked == most {
				found.More = true
				return found, nil
			}
			found.Looked++
			place, known := places[cause{l.Reason, l.Error}]
			if !known {
				place = len(found.Groups)
				places[cause{l.Reason, l.Error}] = place
				found.Groups = append(found.Groups, DeadGroup{Reason: l.Reason, Error: l.Error, Newest: l.At, Example: l.ID})
			}
			group := &found.Groups[place]
			group.Letters++
			group.Oldest = l.At
		}
	}
}
