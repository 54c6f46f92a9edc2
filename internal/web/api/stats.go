package api

import (
	"cmp"
	_ "embed"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/duration"
	"github.com/mix-basic/delayer/internal/view"
)

func (c *call) stats() (any, error) {
	v := c.inspector.Overview(c.context())
	if v.CountsErr != nil {
		return nil, v.CountsErr
	}
	nodes, _ := c.inspector.Info(c.context())
	return view.Stats(v.Counts, nodes, v.Servers, v.ServersErr), nil
}

// partitions answers with the counts of each partition.
func (c *call) partitions() (any, error) {
	partitions, err := c.inspector.Partitions(c.context())
	return view.Of("partitions", view.Partitions(partitions)), err
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
		if err != nil || d < last+time.Millisecond || d > client.MaxDelay || len(bounds) == maxSpans {
			return nil, false
		}
		bounds, last = append(bounds, d), d
	}
	return bounds, true
}

func (c *call) forecast() (any, error) {
	found, err := c.inspector.Forecast(c.context(), get[[]time.Duration](c.query, "spans"))
	return view.Of("spans", view.Spans(found.Spans)), cmp.Or(err, found.Broken)
}

// The parameters of load.
var (
	ofTopic = Parameter{
		Name: "topic", want: fmt.Sprintf("a topic, of up to %d bytes", maxTopic),
		read: func(text string) (any, bool) { return text, text != "" && len(text) <= maxTopic },
	}
	within = Parameter{
		Name: "within", missing: time.Minute, want: durations + ", above 0",
		read: func(text string) (any, bool) {
			d, err := duration.Parse(text)
			return d, err == nil && d >= time.Millisecond && d <= client.MaxDelay
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
