package view

import (
	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/cron"
	"github.com/mix-basic/delayer/internal/inspect"
	"github.com/mix-basic/delayer/internal/store"
)

// Topic describes a topic's counts, its limit and its pause, if it has any.
func Topic(t inspect.TopicCounts, pause *store.Pause) (o Object) {
	o.Text("topic", t.Topic)
	o.Put("ready", t.Ready)
	o.Put("reserved", t.Reserved)
	o.Put("dead", t.Dead)
	o.Put("overdue", t.Overdue)
	o.Put("overdue_at_least", t.AtLeast)
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
	if l.Concurrency > 0 {
		o.Put("concurrency", l.Concurrency)
	}
	if l.Rate > 0 {
		o.Put("rate", l.Rate)
		if l.Burst > 0 {
			o.Put("burst", l.Burst)
		}
	}
	o.TextIfAny("tag", l.Tag)
	return o
}

// Use describes how much of the topic's limit is used.
func Use(t inspect.TopicCounts) (o Object) {
	if t.Limit.Concurrency > 0 {
		o.Put("slots_taken", t.Slots)
	}
	o.Put("throttled", t.Throttled)
	o.Put("throttled_until", t.ThrottledUntil)
	if t.Limit.Tag != "" {
		o.Put("untagged", t.Untagged)
	}
	return o
}

// Pause describes a topic's pause, without its name.
func Pause(p store.Pause) (o Object) {
	o.Put("since", p.Since)
	o.Put("until", p.Until)
	o.TextIfAny("note", p.Note)
	o.Put("backed_off_since", p.BackedOffSince)
	o.Put("backed_off_until", p.BackedOffUntil)
	return o
}

// Paused describes the paused topics.
func Paused(pauses inspect.Pauses) []Object {
	list := make([]Object, len(pauses))
	for i, p := range pauses {
		list[i].Text("topic", p.Topic)
		list[i] = append(list[i], Pause(p)...)
	}
	return list
}

// Schedules describes all schedules.
func Schedules(all []client.Scheduled) []Object {
	list := make([]Object, len(all))
	for i, s := range all {
		list[i] = schedule(s)
	}
	return list
}

func schedule(s client.Scheduled) (o Object) {
	o.Text("name", s.Name)
	o.Put("cron", cron.Text(s.Cron, s.Every))
	o.Put("zone", s.Zone)
	o.Text("topic", s.Topic)
	o.Headers(s.Headers)
	o.Text("body", s.Body)
	o.Put("missed", s.Missed)
	o.Put("overlap", s.Overlap)
	o.Put("jitter", s.Jitter)
	if s.MaxAttempts > 0 {
		o.Put("max_attempts", s.MaxAttempts)
	}
	if s.TTR > 0 {
		o.Put("ttr", s.TTR)
	}
	o.Put("ready_max_lifetime", s.ReadyMaxLifetime)
	o.TextIfAny("owner", s.Owner)
	o.Put("next", s.Next)
	o.Put("paused", s.Paused)
	o.TextIfAny("last_id", s.LastID)
	o.Put("jobs", s.Jobs)
	o.Put("late", s.Late)
	o.Put("overlapped", s.Overlapped)
	o.Put("while_paused", s.WhilePaused)
	past := make([]Object, len(s.Past))
	for i, m := range s.Past {
		past[i].Put("at", m.At)
		past[i].Put("what", m.Result)
		past[i].Put("late", m.Late)
	}
	o.Put("past", past)
	return o
}
