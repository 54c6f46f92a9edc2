package main

import (
	"strings"
	"text/tabwriter"
)

// table is text in columns.
type table struct {
	text strings.Builder
	to   *tabwriter.Writer
	end  string // of a row
}

// newTable makes one; align is 0 or tabwriter.AlignRight.
func newTable(align uint, head ...string) *table {
	t := &table{end: "\n"}
	if align == tabwriter.AlignRight {
		t.end = "\t\n" // or the last column would not be aligned
	}
	t.to = tabwriter.NewWriter(&t.text, 0, 0, 2, ' ', align)
	t.row(head...)
	return t
}

func (t *table) row(cells ...string) { t.to.Write([]byte(strings.Join(cells, "\t") + t.end)) }

// String is the table without a line break at its end.
func (t *table) String() string {
	t.to.Flush()
	return strings.TrimRight(t.text.String(), "\n")
}
