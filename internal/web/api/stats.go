package api

import (
	_ "embed"
	"fmt"
	"math"
	"net/http"
	"strings"
	"time"

	"github.com/mix-basic/delayer/internal/duration"
	"github.com/mix-basic/delayer/internal/health"
	"github.com/mix-basic/delayer/internal/inspect"
	"github.com/mix-basic/delayer/internal/store"
	"github.com/mix-basic/delayer/internal/view"
)

// withCounts is the parameter of stats that adds the topics.
var withCounts = flag("counts")

// stats answers with the counts of all jobs and, if asked, of each topic. What can't be read is null.
func (c *call) stats() (any, error) {
	ctx := c.context()
	v := health.Look(ctx, c.inspector)
	if v.CountsErr != nil {
		return nil, v.CountsErr
	}
	o := view.Stats(v.Counts, v.Nodes, v.Servers, v.ServersErr)
	throttled, paused := 0, 0
	if v.PausesErr != nil {
		paused = inspect.Unknown
	}
	topics := make([]object, len(v.Topics))
	for i, t := range v.Topics {
		throttled += max(t.Throttled, 0)
		pause := v.Pauses.Of(t.Topic)
		if pause != nil {
			paused++
		}
		topics[i] = view.Topic(t, pause)
	}
	o.Put("throttled", throttled)
	o.Put("paused", paused)
	c.putDue(&o)
	putRates(&o, v.History, v.Time)
	if get[bool](c.query, withCounts.Name) {
		c.putWaiting(topics)
		o.Put("counts", topics)
	}
	c.partly(v.Broken(), v.PausesErr, v.ServersErr, v.HistoryErr, v.NodesErr)
	return o, nil
}

// partly reports why parts of the answer are missing. A part that this Redis user may not read is no failure.
func (c *call) partly(errs ...error) {
	for _, err := range errs {
		if err != nil && !store.Refused(err) {
			c.Failed(err)
		}
	}
}

// putDue adds how many jobs fall due soon.
func (c *call) putDue(o *object) {
	due, err := c.inspector.Forecast(c.context(), view.Forecast[:3])
	c.partly(err)
	jobs := 0
	for i, name := range []string{"due_in_minute", "due_in_hour", "due_in_day"} {
		if err != nil {
			o.Put(name, nil)
			continue
		}
		jobs += due.Spans[i].Jobs
		o.Put(name, jobs)
	}
}

// putRates adds how many jobs per second became ready and were acknowledged in the last ten seconds of the servers' history,
// and how late they were. The rates are unknown without servers, or if this Redis user may not read them.
func putRates(o *object, past []store.Past, now time.Time) {
	var moved, acked, median, most any
	tenth := func(rate float64) any { return math.Round(10*rate) / 10 }
	if n := len(past); n > 0 && now.Sub(past[n-1].Until) <= store.MaxPastGap {
		last := past[n-1]
		late := func(q float64) any { return last.Lateness.Quantile(q).Round(time.Microsecond) }
		moved, median, most = tenth(last.Moved()), late(0.5), late(0.99)
		if n > 1 && last.AckedSince(past[n-2]) >= 0 {
			acked = tenth(last.AckedSince(past[n-2]))
		}
	}
	*o = append(*o, view.Of("moved_per_second", moved, "acked_per_second", acked, "late_p50", median, "late_p99", most)...)
}

// sampled is how many waiting jobs are examined for the topics' shares.
const sampled = 1000

// putWaiting adds to each topic how many jobs wait, estimated from a sample.
func (c *call) putWaiting(topics []object) {
	shares, err := c.inspector.Shares(c.context(), sampled)
	c.partly(err)
	waiting := map[string]int{}
	for _, s := range shares.Topics {
		waiting[s.Topic] = s.Jobs
	}
	for i := range topics {
		if err != nil {
			topics[i].Put("waiting", nil)
			continue
		}
		topics[i].Put("waiting", waiting[topics[i].TextOf("topic")])
		if !shares.Exact {
			topics[i].Put("waiting_estimated", true)
		}
	}
}

// partitions answers with the counts of each partition.
func (c *call) partitions() (any, error) {
	partitions, err := c.inspector.Partitions(c.context())
	for _, p := range partitions {
		if p.Err != nil {
			c.partly(fmt.Errorf("partition %d: %w", p.Number, p.Err))
		}
	}
	return view.Of("partitions", view.Partitions(partitions)), err
}

func (c *call) servers() (any, error) {
	servers, err := c.inspector.Servers(c.context())
	return view.Of("servers", view.Servers(servers)), err
}

// maxSpans is the maximum number of spans of a forecast.
const maxSpans = 100

// spans is the parameter with the ends of the spans.
var spans = Parameter{
	Name: "spans", missing: view.Forecast, read: readSpans,
	want: "up to 100 durations above 0 in ascending order, such as 1m,1h,24h,7d",
}

func readSpans(text string) (value any, ok bool) {
	var bounds []time.Duration
	last := time.Duration(0)
	for part := range strings.SplitSeq(text, ",") {
		d, err := duration.Parse(part)
		if err != nil || d < last+time.Millisecond || d > store.MaxDelay || len(bounds) == maxSpans {
			return nil, false
		}
		bounds, last = append(bounds, d), d
	}
	return bounds, true
}

func (c *call) forecast() (any, error) {
	found, err := c.inspector.Forecast(c.context(), get[[]time.Duration](c.query, "spans"))
	c.partly(found.Broken)
	return append(view.Of("spans", view.Spans(found.Spans)), view.Broken(found.BrokenPartitions)...), err
}

// The parameters of load.
var (
	ofTopic = sized("topic", maxTopic, "a topic")
	within  = Parameter{
		Name: "within", missing: time.Minute, want: durations + ", above 0",
		read: func(text string) (any, bool) {
			d, err := duration.Parse(text)
			return d, err == nil && d >= time.Millisecond && d <= store.MaxDelay
		},
	}
)

// load answers an autoscaler: how many jobs of a topic there are to do now and soon.
func (c *call) load() (any, error) {
	l, err := c.inspector.Load(c.context(), get[string](c.query, "topic"), get[time.Duration](c.query, "within"))
	return view.Of("load", l.Due+l.Ready+l.Reserved, "due", l.Due, "ready", l.Ready, "reserved", l.Reserved, "estimated", l.Estimated), err
}

//go:embed openapi.yaml
var openapi []byte

func (c *call) description() (any, error) {
	return response{status: http.StatusOK, content: "application/yaml", body: openapi}, nil
}
