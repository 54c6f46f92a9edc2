// Package health judges an installation: Look reads it once, and the judgements find what is wrong in what was read. What can't be read is a
// finding like any other. The doctor and delayer nagios show the same findings.
package health

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/mix-basic/delayer/internal/duration"
	"github.com/mix-basic/delayer/internal/inspect"
	"github.com/mix-basic/delayer/internal/store"
)

// Level is the severity of a finding or a measurement. Its value is the exit code of a Nagios plugin.
type Level int

const (
	OK Level = iota
	Warning
	Critical
	Unknown
)

func (l Level) String() string { return [...]string{"OK", "WARNING", "CRITICAL", "UNKNOWN"}[l] }

// MarshalText implements encoding.TextMarshaler, for JSON.
func (l Level) MarshalText() ([]byte, error) { return []byte(strings.ToLower(l.String())), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (l *Level) UnmarshalText(text []byte) error {
	for *l = OK; *l < Unknown; *l++ {
		if strings.EqualFold(l.String(), string(text)) {
			break
		}
	}
	return nil
}

// Finding is a fault.
type Finding struct {
	Kind     string `json:"name"`           // name of the check
	Level    Level  `json:"level"`          // Warning or Critical
	What     string `json:"what,omitempty"` // what has the fault, such as a topic or a server; empty: the installation
	Evidence string `json:"evidence"`       // observed values
	Fix      string `json:"fix"`            // command or setting that repairs the fault
}

// String is the finding in a line, without its kind and fix.
func (f Finding) String() string {
	if f.What == "" {
		return f.Evidence
	}
	return f.What + ": " + f.Evidence
}

// View is what was read. Each part has its own error.
type View struct {
	inspect.Overview
	History    []store.Past
	HistoryErr error
	Nodes      []inspect.Info
	NodesErr   error
}

// Look reads everything once.
func Look(ctx context.Context, jobs *inspect.Inspector) *View {
	v := &View{Overview: jobs.Overview(ctx)}
	v.History, v.HistoryErr = jobs.History(ctx)
	v.Nodes, v.NodesErr = jobs.Info(ctx)
	return v
}

// Unreadable finds what can't be read, other than for missing permissions. Where only a part refuses them, it is broken.
func Unreadable(v *View) (found []Finding) {
	for _, f := range v.Failures() {
		found = append(found, NotRead(f.Where, f.Err))
	}
	for _, err := range []error{v.CountsErr, v.PausesErr, v.ServersErr, v.HistoryErr, v.NodesErr} {
		if err != nil && !store.Refused(err) {
			found = append(found, NotRead("", err))
		}
	}
	return found
}

// NotRead is the finding that what can't be read because of err.
func NotRead(what string, err error) Finding {
	fix := "Redis's words name the reason; redis-cli says more"
	switch store.KindOf(err) {
	case store.NoAnswer:
		fix = "start Redis, or repair the network"
	case store.NotNow:
		fix = "redis-cli INFO says whether it loads, is a replica or is busy; programs need the master"
	case store.WrongType:
		fix = "another program uses the prefix: rename the key, then delayer fsck"
	case store.Denied:
		fix = "give the Redis user the ACL lines in docs/access.md"
	}
	evidence, _, _ := strings.Cut(err.Error(), " script: ") // Redis adds the line of our script
	return Finding{Kind: "unreadable", Level: Critical, What: what, Evidence: evidence, Fix: fix}
}

// Disk finds nodes that can't write to their disks.
func Disk(v *View) (found []Finding, _ error) {
	for _, node := range v.Nodes {
		for what, status := range map[string]string{"snapshot": node.Snapshot, "write or rewrite of the AOF": node.AOF} {
			if status == "failed" {
				found = append(found, Finding{
					Level: Critical, What: ofNode(node), Evidence: "the last " + what + " has failed: Redis may refuse writes (MISCONF)",
					Fix: "free the disk that Redis writes to; its log says more",
				})
			}
		}
	}
	return found, v.NodesErr
}

func ofNode(node inspect.Info) string {
	if node.Node == "" {
		return ""
	}
	return "node " + node.Node
}

// Servers finds faults of the servers.
func Servers(v *View) (found []Finding, _ error) {
	if v.ServersErr != nil {
		return nil, v.ServersErr
	}
	alive := store.Alive(v.Servers)
	if len(alive) == 0 {
		found = append(found, Finding{Level: Critical, Evidence: "no server runs: nothing becomes ready", Fix: "systemctl start delayer"})
	}
	for _, s := range v.Servers {
		if s.Stale() {
			found = append(found, Finding{What: ofServer(s), Evidence: fmt.Sprintf("it was last seen %v ago: it has died, or can't reach Redis", duration.Format(s.Age.Round(time.Second))), Fix: "restart it; its entry ends by itself"})
		}
	}
	for _, s := range alive {
		first := alive[0]
		if s.Version != first.Version {
			found = append(found, Finding{What: ofServer(s), Evidence: fmt.Sprintf("it has version %s, another one %s", s.Version, first.Version), Fix: "upgrade and restart it"})
		}
		if s.Interval != first.Interval {
			found = append(found, Finding{What: ofServer(s), Evidence: fmt.Sprintf("it has timer_interval %s, another one %s", duration.Format(s.Interval), duration.Format(first.Interval)), Fix: "give all servers the same delayer.conf"})
		}
		if s.Error != "" {
			found = append(found, Finding{What: ofServer(s), Evidence: "its last pass failed: " + s.Error, Fix: "see its error log"})
		}
	}
	return found, nil
}

func ofServer(s store.ServerState) string { return fmt.Sprintf("server %s:%d", s.Host, s.PID) }

// Late is for how long a job, a topic or a schedule may wait until that is a fault.
const Late = 10 * time.Second

// Overdue finds that jobs are not moved.
func Overdue(v *View) ([]Finding, error) {
	if v.CountsErr != nil || v.Counts.Overdue < Late {
		return nil, v.CountsErr
	}
	f := Finding{Evidence: fmt.Sprintf("a job has been due for %v, and is not moved", duration.Format(v.Counts.Overdue.Round(time.Second))), Fix: "delayer servers; the error log names the reason"}
	if DefaultCritical.exceeded("overdue", seconds(v.Counts.Overdue)) {
		f.Level = Critical
	}
	return []Finding{f}, nil
}

// Waiting returns the topics whose ready jobs wait for a consumer, not for the end of a pause or for their limit.
func Waiting(v *View) (waiting []inspect.TopicCounts, _ error) {
	for _, t := range v.Topics {
		if t.Ready > 0 && t.Reserved <= 0 && t.AtLeast > Late && !v.Pauses.Block(t) {
			waiting = append(waiting, t)
		}
	}
	if v.CountsErr != nil {
		return nil, v.CountsErr
	}
	return waiting, v.PausesErr
}

// Paused finds paused topics.
func Paused(v *View) (found []Finding, _ error) {
	for _, p := range v.Pauses {
		since := cmp.Or(p.Since, p.ThrottledSince)
		found = append(found, Finding{What: ofTopic(p.Topic), Evidence: "it is paused since " + since.Format(time.DateTime), Fix: "delayer resume " + p.Topic})
	}
	return found, v.PausesErr
}

func ofTopic(topic string) string { return fmt.Sprintf("topic %q", topic) }

// Throttled finds topics whose limit is too low, or keeps jobs from everybody.
func Throttled(v *View) (found []Finding, _ error) {
	for _, t := range v.Topics {
		switch {
		case t.Untagged > 0:
			found = append(found, Finding{What: ofTopic(t.Topic), Evidence: fmt.Sprintf("ready jobs without its limit's tag, which nobody can reserve: %d", t.Untagged), Fix: "delayer limit " + t.Topic})
		case t.Throttled > 0 && t.AtLeast > Late:
			found = append(found, Finding{What: ofTopic(t.Topic), Evidence: fmt.Sprintf("ready jobs that wait for its limit: %d, the first for %v", t.Throttled, duration.Format(t.AtLeast.Round(time.Second))), Fix: "delayer limit " + t.Topic})
		}
	}
	return found, v.CountsErr
}

// Counters compares the stored counts of reserved jobs with the pool, which contains all of them.
func Counters(v *View) ([]Finding, error) {
	reserved := 0
	for _, t := range v.Topics {
		reserved += max(t.Reserved, 0)
	}
	if v.CountsErr != nil || reserved <= v.Pool {
		return nil, v.CountsErr
	}
	return []Finding{{Evidence: fmt.Sprintf("jobs counted as reserved: %d; entries of the pool: %d", reserved, v.Pool), Fix: "delayer fsck --repair"}}, nil
}
