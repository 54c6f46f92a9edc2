package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/mix-basic/delayer/internal/duration"
	"github.com/mix-basic/delayer/internal/exit"
	"github.com/mix-basic/delayer/internal/view"
)

// rows is a list of objects: a table, or {"NAME":[…]} in JSON.
type rows struct {
	name    string   // name of the list in JSON
	columns []string // members shown in the table
	list    iter.Seq2[view.Object, error]
	most    int         // 0: all
	more    view.Object // other members in JSON
	notes   []string    // lines below the table
}

// rowsOf returns a reply with rows that have all been read.
func rowsOf(name string, list []view.Object, columns ...string) reply {
	return reply{rows: &rows{name: name, columns: columns, list: func(yield func(view.Object, error) bool) {
		for _, o := range list {
			if !yield(o, nil) {
				return
			}
		}
	}}}
}

// rowsAtOnce is the number of rows printed at a time. Columns keep their widths across these batches.
const rowsAtOnce = 500

func (c *call) printRows(ctx context.Context, r *rows) error {
	t := &table{columns: r.columns}
	some := []view.Object{}
	before := fmt.Sprintf("{%q:[", r.name)
	text := func() string {
		if !c.json {
			return t.text(some)
		}
		list := before + strings.Trim(jsonLine(some), "[]")
		before = ","
		return list
	}
	n := 0
	for o, err := range r.list {
		if err != nil {
			return err
		}
		if len(some) == rowsAtOnce {
			if err := c.write(ctx, text()); err != nil {
				return err
			}
			some = some[:0]
		}
		some = append(some, o)
		if n++; n == r.most {
			break
		}
	}
	last := text()
	if c.json {
		last += "]"
		for _, m := range r.more {
			last += fmt.Sprintf(",%q:%s", m.Name, jsonLine(m.Value))
		}
		last += "}"
	} else if len(r.notes) > 0 {
		last += strings.Join(r.notes, "\n")
	}
	return c.printLast(ctx, last)
}

// table prints objects in aligned columns under a header. Columns of numbers are right-aligned.
type table struct {
	columns []string
	widths  []int // nil until the header is written
	isText  []bool
}

// text returns the lines of more objects, with the header before the first.
func (t *table) text(list []view.Object) string {
	var lines [][]string
	if t.widths == nil {
		t.widths, t.isText = make([]int, len(t.columns)), make([]bool, len(t.columns))
		lines = append(lines, t.columns)
	}
	for _, o := range list {
		line := make([]string, len(t.columns))
		for i, column := range t.columns {
			value := o.Get(column)
			line[i] = cell(column, value)
			t.isText[i] = t.isText[i] || !isNumber(value)
		}
		lines = append(lines, line)
	}
	for i := range t.columns {
		for _, line := range lines {
			t.widths[i] = max(t.widths[i], utf8.RuneCountInString(line[i]))
		}
	}
	var b strings.Builder
	for _, line := range lines {
		text := ""
		for i, value := range line {
			space := strings.Repeat(" ", t.widths[i]-utf8.RuneCountInString(value))
			if t.isText[i] {
				text += value + space + "  "
			} else {
				text += space + value + "  "
			}
		}
		b.WriteString(strings.TrimRight(text, " ") + "\n")
	}
	return b.String()
}

func isNumber(value any) bool {
	switch value.(type) {
	case nil, json.Number:
		return true
	}
	return false
}

// longTexts are the members that a table shows on one line.
var longTexts = []string{"body", "error", "note", "preview", "reason"}

// cell returns the value of that name on one line. A - stands for an unknown, endless or missing
// value.
func cell(name string, value any) string {
	text := ""
	switch v := value.(type) {
	case nil:
	case json.Number:
		text = number(name, v)
	case string:
		if text = printable(v, ""); slices.Contains(times, name) {
			text = timeOf(v).Local().Format(timeFormat)
		} else if slices.Contains(longTexts, name) {
			text = printable(exit.OneLine(v), "")
		}
	case view.Object:
		text = cells(v)
		if name == "headers" {
			text = headers(v)
		}
	case []byte:
		return cell(name, string(v))
	default:
		text = printable(fmt.Sprint(v), "")
	}
	if text == "" {
		return "-"
	}
	return text
}

// times and spans are the members of /v1's answers that are times, in texts, and durations, in numbers of seconds.
var (
	times = []string{"died", "due", "lease_ends", "newest", "next", "oldest", "paused", "since", "started", "throttled_since", "throttled_until", "time", "until"}
	spans = []string{"from", "late_p50", "late_p99", "overdue", "silent", "ttl", "until"}
)

// timeOf returns the time that a text of /v1 says; zero for anything else.
func timeOf(value any) time.Time {
	text, _ := value.(string)
	t, _ := time.Parse(time.RFC3339, text)
	return t
}

// number returns the text of a number that has that name.
func number(name string, n json.Number) string {
	f, _ := n.Float64()
	switch {
	case slices.Contains(spans, name):
		return duration.Format(time.Duration(math.Round(f*1000)) * time.Millisecond)
	case name == "rate":
		return duration.Rate(f)
	}
	return n.String()
}

// numberOf returns a number of /v1; the least one if it is unknown.
func numberOf(value any) float64 {
	if n, is := value.(json.Number); is {
		f, _ := n.Float64()
		return f
	}
	return math.Inf(-1)
}

// headers returns a job's headers on one line.
func headers(o view.Object) string {
	parts := make([]string, len(o))
	for i, m := range o {
		parts[i] = m.Name + "=" + printable(fmt.Sprint(m.Value), "")
	}
	return strings.Join(parts, ", ")
}

// cells returns an object on one line.
func cells(o view.Object) string {
	parts := make([]string, len(o))
	for i, m := range o {
		parts[i] = strings.ReplaceAll(m.Name, "_", " ") + " " + cell(m.Name, m.Value)
	}
	return strings.Join(parts, ", ")
}

// inLines returns an object as text, one line per member, except for the members in without.
func inLines(o view.Object, without ...string) (text string) {
	width := nameColumn
	for _, m := range o {
		if !slices.Contains(without, m.Name) {
			width = max(width, len(m.Name)+2)
		}
	}
	for _, m := range o {
		if name := strings.TrimSuffix(m.Name, "_base64"); !slices.Contains(without, name) {
			text += fmt.Sprintf("%-*s%s\n", width, name+":", cell(name, m.Value))
		}
	}
	return text
}

// nameColumn is the minimum width of the names in inLines.
const nameColumn = 15
