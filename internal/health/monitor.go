package health

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mix-basic/delayer/internal/store"
)

// Limits are the values, by name, from which a measurement is bad. For servers, fewer than the limit are bad.
type Limits map[string]float64

// measures lists the names and units of the values that measure reads, in the order of the output. memory is the part of
// maxmemory that is used, of the fullest node; without a maxmemory it is left out.
var measures = []struct{ name, unit string }{
	{"overdue", "s"}, {"lateness", "s"}, {"servers", ""}, {"waiting", ""}, {"ready", ""}, {"reserved", ""}, {"dead", ""},
	{"memory", "%"},
}

// DefaultWarning and DefaultCritical are the default limits.
var (
	DefaultWarning  = Limits{"overdue": 10, "lateness": 10, "memory": 90}
	DefaultCritical = Limits{"overdue": 60, "lateness": 60, "memory": 100, "servers": 1}
)

// Parse reads limits of the form "overdue=30,dead=100" into l. Times are in seconds.
func (l Limits) Parse(text string) error {
	for part := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(part, "=")
		number, err := strconv.ParseFloat(value, 64)
		known := slices.ContainsFunc(measures, func(m struct{ name, unit string }) bool { return m.name == name })
		if !known || err != nil || !(number >= 0) {
			return fmt.Errorf("want overdue, lateness, servers, waiting, ready, reserved, dead or memory, = and a number, separated by commas")
		}
		l[name] = number
	}
	return nil
}

// exceeded reports whether the value is bad.
func (l Limits) exceeded(name string, value float64) bool {
	limit, set := l[name]
	if name == "servers" {
		return set && value < limit
	}
	return set && value >= limit
}

// recently is the period over which lateness is measured.
const recently = 5 * time.Minute

// Monitor judges the measurements and what can't be read, and returns the worst level and one line for a monitor.
func (v *View) Monitor(warning, critical Limits) (Level, string, error) {
	if v.CountsErr != nil {
		return Critical, "", v.CountsErr
	}
	values := v.measure()
	worst := OK
	var bad, data, unknown []string
	disk, _ := Disk(v)
	for _, f := range append(Unreadable(v), disk...) {
		worst, bad = Critical, append(bad, strings.ReplaceAll(f.String(), "|", " ")) // which begins the data
	}
	for _, m := range measures {
		value, read := values[m.name]
		if !read {
			continue
		}
		limit := func(l Limits) string {
			if n, set := l[m.name]; set && m.name == "servers" {
				return strconv.FormatFloat(n, 'f', -1, 64) + ":" // a range of Nagios: values below are bad
			} else if set {
				return strconv.FormatFloat(n, 'f', -1, 64)
			}
			return ""
		}
		if value < 0 {
			unknown = append(unknown, m.name)
			continue
		}
		number := strconv.FormatFloat(value, 'f', -1, 64) + m.unit
		data = append(data, fmt.Sprintf("%s=%s;%s;%s;0", m.name, number, limit(warning), limit(critical)))
		switch {
		case critical.exceeded(m.name, value):
			worst = Critical
		case warning.exceeded(m.name, value):
			worst = max(worst, Warning)
		default:
			continue
		}
		bad = append(bad, m.name+" "+number)
	}
	switch {
	case len(unknown) > 0 && worst == OK:
		worst, bad = Unknown, []string{"this user may not read " + strings.Join(unknown, ", ")}
	case len(bad) == 0:
		bad = []string{fmt.Sprintf("%v jobs waiting, %v ready", values["waiting"], values["ready"])}
	}
	return worst, fmt.Sprintf("DELAYER %v - %s | %s", worst, strings.Join(bad, ", "), strings.Join(data, " ")), nil
}

// measure returns the values. One that can't be read is negative.
func (v *View) measure() map[string]float64 {
	values := map[string]float64{"waiting": float64(v.Counts.Waiting), "ready": 0, "reserved": 0, "dead": 0, "overdue": -1, "lateness": -1, "servers": -1}
	if v.Counts.Overdue >= 0 {
		values["overdue"] = seconds(v.Counts.Overdue)
	}
	for _, t := range v.Topics {
		values["ready"] += float64(max(t.Ready, 0))
		values["reserved"] += float64(max(t.Reserved, 0))
		values["dead"] += float64(max(t.Dead, 0))
	}
	if v.ServersErr == nil {
		values["servers"] = float64(len(store.Alive(v.Servers)))
	}
	if v.HistoryErr == nil {
		var lateness store.Lateness
		for _, p := range v.History {
			if v.Time.Sub(p.Until) < recently {
				lateness = lateness.Plus(p.Lateness)
			}
		}
		values["lateness"] = 0
		if lateness.Jobs() > 0 {
			values["lateness"] = seconds(lateness.Quantile(0.99))
		}
	}
	for _, node := range v.Nodes {
		if node.Missing != "" {
			values["memory"] = -1
			break
		}
		if node.MaxMemory > 0 {
			values["memory"] = max(values["memory"], math.Round(1000*float64(node.UsedMemory)/float64(node.MaxMemory))/10)
		}
	}
	return values
}

func seconds(d time.Duration) float64 { return d.Round(time.Millisecond).Seconds() }
