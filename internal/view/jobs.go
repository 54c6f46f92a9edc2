package view

import (
	"time"
	"unicode/utf8"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/inspect"
)

// TimeNames are the members for a job's time, by state.
var TimeNames = map[client.State]string{client.Waiting: "due", client.Reserved: "lease_ends", client.Dead: "died"}

// Job describes one job as a whole.
func Job(job client.Job) (o Object) {
	o.Text("id", job.ID)
	o.Text("topic", job.Topic)
	o.Put("state", job.State)
	o.Put(TimeNames[job.State], job.Due)
	o.Put("ttl", job.TTL)
	o.Put("attempts", job.Attempts)
	if job.MaxAttempts > 0 {
		o.Put("max_attempts", job.MaxAttempts)
	}
	if job.Followed {
		o.Put("followed", true)
	}
	o.TextIfAny("reason", job.Reason)
	o.TextIfAny("error", job.Error)
	o.Headers(job.Headers)
	o.Text("body", job.Body)
	return o
}

// Summary describes a job in a list.
func Summary(job inspect.Job, state client.State) (o Object) {
	o.Text("id", job.ID)
	o.Text("topic", job.Topic)
	o.Put("state", state)
	o.Put(TimeNames[state], job.At)
	o.Put("attempts", job.Attempts)
	o.TextIfAny("reason", job.Reason)
	o.TextIfAny("error", job.Error)
	o.Headers(job.Headers)
	o.Put("size", job.Size)
	if job.Size > len(job.Body) {
		job.Body = wholeCharacters(job.Body)
	}
	o.Text("preview", job.Body)
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
		o.TextIfAny("reason", g.Reason)
		o.TextIfAny("error", g.Error)
		o.Put("count", g.Letters)
		o.Put("newest", g.Newest)
		o.Put("oldest", g.Oldest)
		example := Object{}
		example.Text("id", g.Example)
		o.Put("example", example)
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
