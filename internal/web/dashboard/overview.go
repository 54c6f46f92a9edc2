package dashboard

import (
	"encoding/json"
	"html/template"
	"strings"
	"time"

	"github.com/mix-basic/delayer/internal/inspect"
)

// overviewData is what the overview shows.
type overviewData struct {
	view
	Status  status
	Divided *partitionTable // nil if there is one partition
	Slowed  *slowedTable    // nil if no topic is paused or limited
	Where   string          // where Redis is, if no fixed address says that
	Busy    string          // how busy the busiest second will be, if that is a warning
}

// overviewOf makes it of what the sampler saw.
func (p *page) overviewOf(v view) overviewData {
	p.setClock(v.Time)
	o := overviewData{view: v, Status: p.statusOf(v.sample), Divided: partitionsOf(v.sample), Slowed: slowedOf(v.sample), Where: p.where(v.Master)}
	if peak := v.Peak; peak.Found && float64(peak.Jobs) > v.Taken && peak.At.After(v.Time) {
		jobs := number(peak.Jobs)
		if peak.Estimated {
			jobs = p.T("about", jobs)
		}
		o.Busy = p.T("peak.warning", jobs, rate(v.Taken))
	}
	return o
}

// Snapshots reports whether that Redis has made any since it runs: before, it names its start as the time
// of the last one.
func (o overviewData) Snapshots(of inspect.Info) bool {
	started := o.Time.Add(-of.Uptime)
	return of.SnapshotAt.Sub(started) > 2*time.Second
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
var liveParts = []string{"status", "numbers", "slowed", "coming", "partitions", "servers", "redis"}

// live is the overview's parts, and the points of its charts after those that the browser has, as JSON.
func (d *Dashboard) live(p *page) error {
	p.w.Header().Set("Content-Type", "application/json")
	v, err := d.sampler.look(p.ctx)
	if err != nil {
		found := p.problemOf(err)
		p.w.WriteHeader(found.Status)
		return json.NewEncoder(p.w).Encode(map[string]string{"problem": found.Title})
	}
	data := p.overviewOf(v)
	p.Data = data
	parts := map[string]template.HTML{}
	for _, name := range liveParts {
		if name == "partitions" && data.Divided == nil { // which is not on the page then
			continue
		}
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
