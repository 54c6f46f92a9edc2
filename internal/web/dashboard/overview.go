package dashboard

import (
	"context"
	"encoding/json"
	"html/template"
	"strings"
	"time"

	"github.com/mix-basic/delayer/internal/inspect"
)

type overviewData struct {
	*state
	Status  status
	Divided *partitionTable // nil for a single partition
	Slowed  []topicRow      // paused or limited topics
	Where   string          // where Redis is, unless that is a fixed address
}

// overviewData reads the content.
func (p *page) overviewData() (overviewData, error) {
	s, err := p.state()
	if err != nil {
		return overviewData{}, err
	}
	p.complete(p.ctx, s)
	return overviewData{state: s, Status: p.statusOf(s), Divided: partitionsOf(s), Slowed: slowedOf(s), Where: p.where(s.Master)}, nil
}

// Snapshots reports whether Redis has made a snapshot since it started. Until then it reports its start time
// as that of the last one.
func (o overviewData) Snapshots(of inspect.Info) bool {
	started := o.Time.Add(-of.Uptime)
	return of.SnapshotAt.Sub(started) > 2*time.Second
}

func (d *Dashboard) overview(p *page) error {
	data, err := p.overviewData()
	if err != nil {
		return err
	}
	return p.show("overview", data)
}

var liveParts = []string{"status", "numbers", "slowed", "coming", "partitions", "servers", "redis"}

// live answers with the overview's parts, the chart points of the history that the browser lacks, and those of
// now, as JSON.
func (d *Dashboard) live(p *page) error {
	p.w.Header().Set("Content-Type", "application/json")
	data, err := p.overviewData()
	if err != nil {
		found := p.problemOf(err)
		p.w.WriteHeader(found.Status)
		return json.NewEncoder(p.w).Encode(map[string]string{"problem": found.Title})
	}
	p.Data = data
	parts := map[string]template.HTML{}
	for _, name := range liveParts {
		if name == "partitions" && data.Divided == nil { // not on the page
			continue
		}
		var html strings.Builder
		if err := templates()["overview"].ExecuteTemplate(&html, name, p); err != nil {
			return err
		}
		parts[name] = template.HTML(html.String())
	}
	return json.NewEncoder(p.w).Encode(struct {
		Parts map[string]template.HTML `json:"parts"`
		Past  [][]any                  `json:"past"`
		Now   [][]any                  `json:"now"`
	}{parts, columns(after(data.Points, p.form.Get("since"))), [][]any{{seconds(p.now)}, {data.Ready}, {data.Reserved}}})
}

// Place describes where Redis is if it has no fixed address: the name of a master with its sentinels, or
// nodes of a cluster.
type Place struct {
	Master             string
	Sentinels, Cluster []string
	Now                func(context.Context) (string, error) // asks the sentinels for the master's address
}

// where describes the place; now is the master's address, empty if unknown.
func (p *page) where(now string) string {
	at := p.Place
	switch {
	case len(at.Cluster) > 0:
		return p.T("redis.cluster", strings.Join(at.Cluster, ", "))
	case len(at.Sentinels) == 0:
		return ""
	case now == "":
		return p.T("redis.nowhere", at.Master, strings.Join(at.Sentinels, ", "))
	}
	return p.T("redis.now", at.Master, strings.Join(at.Sentinels, ", "), visible(now))
}
