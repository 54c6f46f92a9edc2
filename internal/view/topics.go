package view

import (
	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/cron"
	"github.com/mix-basic/delayer/internal/inspect"
	"github.com/mix-basic/delayer/internal/store"
)

// Topic describes a topic's counts, its limit and its pause, if it has any.
func Topic(t inspect.TopicCounts, pause *store.Pause) Object {
	o := Of("topic", t.Topic, "ready", t.Ready, "reserved", t.Reserved, "dead", t.Dead, "overdue", t.Overdue, "overdue_at_least", t.AtLeast)
	if l := client.Limit(t.Limit); l != (client.Limit{}) {
		o.Put("limit", Limit(l))
		o = append(o, Use(t)...)
	}
	if pause != nil {
		o.Put("paused", Pause(*pause))
	}
	return o
}

// Limit describes a topic's limit.
func Limit(l client.Limit) (o Object) {
	o.PutIfAny("concurrency", l.Concurrency)
	o.PutIfAny("rate", l.Rate)
	o.PutIfAny("burst", l.Burst)
	o.PutIfAny("tag", l.Tag)
	return o
}

// Use describes how much of the topic's limit is used.
func Use(t inspect.TopicCounts) (o Object) {
	if t.Limit.Concurrency > 0 {
		o.Put("slots_taken", t.Slots)
	}
	o.Put("throttled", t.Throttled, "throttled_until", t.ThrottledUntil)
	if t.Limit.Tag != "" {
		o.Put("untagged", t.Untagged)
	}
	return o
}

// Pause describes a topic's pause, without its name.
func Pause(p store.Pause) Object {
	o := Of("since", p.Since, "until", p.Until)
	o.PutIfAny("note", p.Note)
	o.Put("backed_off_since", p.BackedOffSince, "backed_off_until", p.BackedOffUntil)
	return o
}

// Paused describes the paused topics.
func Paused(pauses inspect.Pauses) []Object {
	list := make([]Object, len(pauses))
	for i, p := range pauses {
		list[i] = append(Of("topic", p.Topic), Pause(p)...)
	}
	return list
}

// Schedules describes all schedules.
func Schedules(all []client.ScheduleInfo) []Object {
	list := make([]Object, len(all))
	for i, s := range all {
		list[i] = schedule(s)
	}
	return list
}

func schedule(s client.ScheduleInfo) Object {
	o := Of("name", s.Name, "cron", cron.Text(s.Cron, s.Every), "zone", s.Zone, "topic", s.Topic)
	o.Headers(s.Headers)
	o.Put("body", s.Body, "missed", s.Missed, "overlap", s.Overlap, "jitter", s.Jitter)
	o.PutIfAny("max_attempts", s.Options.MaxAttempts)
	o.PutIfAny("lease", s.Options.Lease)
	o.Put("expire_after", s.Options.ExpireAfter)
	o.PutIfAny("owner", s.Owner)
	o.Put("next", s.Next, "paused", s.Paused)
	o.PutIfAny("last_id", s.LastID)
	past := make([]Object, len(s.Past))
	for i, m := range s.Past {
		past[i] = Of("at", m.At, "what", m.Result, "late", m.Late)
	}
	o.Put("jobs", s.Jobs, "late", s.Late, "overlapped", s.Overlapped, "while_paused", s.WhilePaused, "past", past)
	return o
}
