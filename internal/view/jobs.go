package view

import (
	"time"
	"unicode/utf8"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/inspect"
)

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
