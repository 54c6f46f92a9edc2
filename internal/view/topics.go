package view

import (
	"time"
	"unicode/utf8"

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
	o.Put("throttled_since", p.ThrottledSince, "throttled_until", p.ThrottledUntil)
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

// TimeNames are the members for a job's time, by state.
var TimeNames = map[client.State]string{client.StateWaiting: "due", client.StateReserved: "lease_ends", client.StateDead: "died"}

// Job describes one job as a whole.
func Job(job client.JobInfo) Object {
	o := Of("id", job.ID, "topic", job.Topic, "state", job.State, TimeNames[job.State], job.Due, "ttl", job.TTL, "attempts", job.Attempts)
	o.PutIfAny("max_attempts", job.Options.MaxAttempts)
	o.PutIfAny("followed", job.Followed)
	o.PutIfAny("reason", job.Reason)
	o.PutIfAny("error", job.Error)
	o.Headers(job.Headers)
	o.Put("body", job.Body)
	return o
}

// Summary describes a job in a list.
func Summary(job inspect.Job, state client.State) Object {
	o := Of("id", job.ID, "topic", job.Topic, "state", state, TimeNames[state], job.At, "attempts", job.Attempts)
	o.PutIfAny("reason", job.Reason)
	o.PutIfAny("error", job.Error)
	o.Headers(job.Headers)
	o.Put("size", job.Size)
	if job.Size > len(job.Body) {
		job.Body = wholeCharacters(job.Body)
	}
	o.Put("preview", job.Body)
	return o
}

// wholeCharacters removes the incomplete character at the end of a cut text.
func wholeCharacters(text string) string {
	for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
		if !utf8.FullRuneInString(text[len(text)-n:]) {
			return text[:len(text)-n]
		}
	}
	return text
}

// DeadGroups describes dead letters by their errors.
func DeadGroups(found inspect.DeadGroups) Object {
	groups := make([]Object, len(found.Groups))
	for i, g := range found.Groups {
		o := &groups[i]
		o.PutIfAny("reason", g.Reason)
		o.PutIfAny("error", g.Error)
		o.Put("count", g.Letters, "newest", g.Newest, "oldest", g.Oldest, "example", Of("id", g.Example))
	}
	return Of("groups", groups, "examined", found.Looked, "complete", !found.More)
}

// Spans describes a forecast.
func Spans(spans []inspect.Span) []Object {
	list := make([]Object, len(spans))
	for i, s := range spans {
		list[i] = Of("from", s.From, "until", s.Until, "jobs", s.Jobs, "estimated", s.Estimated)
	}
	return list
}

// Forecast are the bounds of a forecast that names none.
var Forecast = []time.Duration{time.Minute, time.Hour, 24 * time.Hour, 7 * 24 * time.Hour}

// Stats describes the whole Redis. nodes is nil if they cannot be read; noServers is why the servers cannot be read.
func Stats(counts inspect.Counts, nodes []inspect.Info, servers []store.ServerState, noServers error) Object {
	var ready, dead int
	for _, t := range counts.Topics {
		ready, dead = inspect.Plus(ready, t.Ready), inspect.Plus(dead, t.Dead)
	}
	o := Of("time", counts.Time, "waiting", counts.Waiting, "ready", ready, "reserved", reserved(counts), "dead", dead,
		"topics", counts.Known, "topics_counted", len(counts.Topics))
	o.PutIfAny("at_least", counts.AtLeast())
	o.Put("overdue", counts.Overdue)
	o = append(o, Broken(counts.BrokenPartitions())...)
	if noServers != nil {
		o.Put("servers", nil)
	} else {
		o.Put("servers", Servers(servers))
	}
	if len(nodes) == 0 {
		nodes = []inspect.Info{{Missing: "all"}}
	}
	o.Put("redis", redisInfo(nodes[0]))
	if nodes[0].Node != "" {
		list := make([]Object, len(nodes))
		for i, n := range nodes {
			list[i] = Of("node", n.Node, "redis", redisInfo(n))
		}
		o.Put("nodes", list)
	}
	return o
}

// Broken names the partitions that can't be read, if there are any.
func Broken(partitions []int) (o Object) {
	if len(partitions) > 0 {
		o.Put("broken_partitions", partitions)
	}
	return o
}

// reserved returns the number of reserved jobs of all topics.
func reserved(c inspect.Counts) int {
	if c.Pool < 0 || c.Waiting < 0 {
		return inspect.Unknown
	}
	return c.Pool - c.Waiting
}

// redisInfo is null if the Redis user lacks the permission. Redis's words are not for every client.
func redisInfo(info inspect.Info) any {
	if info.Missing != "" {
		return nil
	}
	return Of("version", info.Version, "role", info.Role, "uptime", info.Uptime, "clients", info.Clients,
		"used_memory", info.UsedMemory, "max_memory", info.MaxMemory, "policy", info.Policy,
		"aof", info.AOF, "snapshot", info.Snapshot, "snapshot_at", info.SnapshotAt, "unsaved", info.Unsaved)
}

// Servers describes the servers. Why a server fails is not for every client.
func Servers(servers []store.ServerState) []Object {
	list := make([]Object, len(servers))
	for i, s := range servers {
		list[i] = Of("host", s.Host, "pid", s.PID, "version", s.Version, "started", s.Started, "silent", s.Age, "stale", s.Stale(),
			"failing", s.Error != "", "moved", s.Moved, "returned", s.Returned, "dropped", s.Dropped)
	}
	return list
}

// Partitions describes each partition.
func Partitions(partitions []inspect.Partition) []Object {
	list := make([]Object, len(partitions))
	for i, p := range partitions {
		o := &list[i]
		o.Put("partition", p.Number)
		o.PutIfAny("node", p.Node)
		o.Put("waiting", p.Waiting, "ready", p.Ready, "reserved", p.Reserved, "dead", p.Dead, "overdue", p.Overdue)
		o.PutIfAny("broken", p.Err != nil)
		o.Put("mover", mover(p.Mover))
	}
	return list
}

// mover is null if no server reports or the Redis user lacks the permission.
func mover(s store.ServerState) any {
	if s.ID == "" {
		return nil
	}
	return Of("host", s.Host, "pid", s.PID)
}
