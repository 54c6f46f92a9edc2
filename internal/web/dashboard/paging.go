package dashboard

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// paging is the part of a list that a page shows, and its order.
type paging struct {
	Path     string
	Shows    []string // filters, by their names in links; the first, "", shows all
	Columns  any      // []column of the rows
	Contains string   // text to search for
	Show     string   // one of Shows
	Sort     string   // key of a column
	Page     int      // from 1
	First    int      // number of the first shown match, from 1
	Last     int
	Matched  int // number of matches
	size     int
}

// column is a column of a table of T: the key of its title, and how rows are sorted by it: larger values first,
// or by name. One without a title is only an order, one without a key only a column.
type column[T any] struct {
	Key, Label string
	Number     bool
	by         func(T) int64 // nil: by name
}

type row interface{ name() string }

// paging completes g, which has the defaults, from the request.
func (p *page) paging(g paging) paging {
	g.Contains, g.Show, g.Sort = p.form.Get("q"), p.form.Get("show"), cmp.Or(p.form.Get("sort"), g.Sort)
	g.Page, g.size = max(countOf(p.form.Get("page")), 1), cmp.Or(g.size, pageSize)
	if !slices.Contains(g.Shows, g.Show) {
		g.Show = ""
	}
	return g
}

// sortPage sorts the rows by the requested column, then by ties and name, and returns those on the page.
func sortPage[T row](g *paging, columns []column[T], rows []T, ties ...func(T) int64) []T {
	at := slices.IndexFunc(columns, func(c column[T]) bool { return c.Key == g.Sort })
	if at < 0 {
		at, g.Sort = 0, columns[0].Key
	}
	if by := columns[at].by; by != nil {
		ties = append([]func(T) int64{by}, ties...)
	}
	slices.SortFunc(rows, func(a, b T) int {
		for _, by := range ties {
			if order := cmp.Compare(by(b), by(a)); order != 0 {
				return order
			}
		}
		return strings.Compare(a.name(), b.name())
	})
	return cutPage(g, rows)
}

// cutPage returns the part of the list that is on the page.
func cutPage[T any](g *paging, list []T) []T {
	g.Matched = len(list)
	g.Page = min(g.Page, g.Pages())
	first := (g.Page - 1) * g.size
	list = list[first:min(first+g.size, len(list))]
	g.First, g.Last = first+1, first+len(list)
	return list
}

func (g paging) Pages() int { return max((g.Matched+g.size-1)/g.size, 1) }

// PageBeside links to the page that many pages away.
func (g paging) PageBeside(pages int) string {
	return link(g.Path, "q", g.Contains, "show", g.Show, "sort", g.Sort, "page", strconv.Itoa(g.Page+pages))
}

// By links to the first page in another order.
func (g paging) By(sort string) string {
	return link(g.Path, "q", g.Contains, "show", g.Show, "sort", sort)
}

// Only links to the first page with another filter.
func (g paging) Only(show string) string {
	return link(g.Path, "q", g.Contains, "show", show, "sort", g.Sort)
}
