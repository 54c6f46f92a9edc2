package dashboard

import (
	"encoding/json"
	"html/template"
	"slices"
	"strconv"
	"strings"
	"time"
)

// overviewData is what the overview shows.
type overviewData struct {
	view
	Status status
	Peak   string // how busy the busiest second will be, if that is a warning
}

// overviewOf makes it of what the sampler saw.
func (p *page) overviewOf(v view) overviewData {
	p.setClock(v.Time)
	o := overviewData{view: v, Status: p.statusOf(v.sample)}
	if peak := v.sample.Peak; peak.Found && float64(peak.Jobs) > v.Taken && peak.At.After(v.Time) {
		jobs := number(peak.Jobs)
		if peak.Estimated {
			jobs = p.T("about", jobs)
		}
		o.Peak = p.T("peak.warning", jobs, rate(v.Taken))
	}
	return o
}

// PeakAt is when the busiest second begins.
func (o overviewData) PeakAt() time.Time { return o.sample.Peak.At }

// Snapshots reports whether Redis has made any since it runs: before, it names its start as the time
// of the last one.
func (o overviewData) Snapshots() bool {
	started := o.Time.Add(-o.Info.Uptime)
	return o.Info.SnapshotAt.Sub(started) > 2*time.Second
}

// overview is the first page.
func (d *Dashboard) overview(p *page) error {
	v, err := d.sampler.look(p.ctx)
	if err != nil {
		return err
	}
	return p.show("overview", p.overviewOf(v))
}

// liveParts are the parts of the overview that follow what happens: those templates.
var liveParts = []string{"status", "numbers", "coming", "servers", "redis"}

// live is the overview's parts, and the points of its charts after those that the browser has, as JSON.
func (d *Dashboard) live(p *page) error {
	p.w.Header().Set("Content-Type", "application/json")
	v, err := d.sampler.look(p.ctx)
	if err != nil {
		found := p.problemOf(err)
		p.w.WriteHeader(found.Status)
		return json.NewEncoder(p.w).Encode(map[string]string{"problem": found.Title})
	}
	p.Data = p.overviewOf(v)
	parts := map[string]template.HTML{}
	for _, name := range liveParts {
		var html strings.Builder
		if err := templates["overview"].ExecuteTemplate(&html, name, p); err != nil {
			return err
		}
		parts[name] = template.HTML(html.String())
	}
	return json.NewEncoder(p.w).Encode(struct {
		Parts  map[string]template.HTML `json:"parts"`
		Charts [][]any                  `json:"charts"`
	}{parts, columns(after(v.Points, p.form.Get("since")))})
}

// after are the points after that time, in seconds; all if it is none.
func after(points []point, since string) []point {
	seconds, err := strconv.ParseFloat(since, 64)
	if err != nil {
		return points
	}
	i, _ := slices.BinarySearchFunc(points, seconds, func(p point, since float64) int {
		if p.seconds() <= since {
			return -1
		}
		return 1
	})
	return points[i:]
}

// seconds is its time as the charts have it.
func (p point) seconds() float64 { return float64(p.At.UnixMilli()) / 1000 }

// columns are the points as the charts take them: each value of all points in turn. What is not
// known is null.
func columns(points []point) [][]any {
	c := make([][]any, 7)
	value := func(i int, known bool, value float64) {
		if known {
			c[i] = append(c[i], value)
		} else {
			c[i] = append(c[i], nil)
		}
	}
	for i := range c {
		c[i] = []any{}
	}
	for _, p := range points {
		value(0, true, p.seconds())
		value(1, p.MovedOK, p.Moved)
		value(2, p.AckedOK, p.Acked)
		value(3, p.LateOK, milliseconds(p.Median))
		value(4, p.LateOK, milliseconds(p.Worst))
		value(5, p.QueuesOK, float64(p.Ready))
		value(6, p.QueuesOK, float64(p.Reserved))
	}
	return c
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
