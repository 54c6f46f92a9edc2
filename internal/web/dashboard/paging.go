package dashboard

import (
	"maps"
	"slices"
	"strconv"
)

// paging is the part of a list that a page shows, and its order.
type paging struct {
	path     string
	Contains string // text to search for
	Show     string // filter; empty for all
	Sort     string
	Page     int // from 1
	First    int // number of the first shown match, from 1
	Last     int
	Matched  int // number of matches
	size     int
}

// column is a table column: the sort order it links to, if any, and the key of its title.
type column struct {
	Key, Label string
	Number     bool
}

// paging reads the request; sort is the default order.
func (p *page) paging(path, sort string) paging {
	g := paging{path: path, Contains: p.form.Get("q"), Show: p.form.Get("show"), Sort: p.form.Get("sort"), Page: max(countOf(p.form.Get("page")), 1), size: pageSize}
	if g.Sort == "" {
		g.Sort = sort
	}
	return g
}

// orderOf returns the requested order, or by name if it is unknown.
func orderOf[T any](orders map[string]T, g *paging) T {
	if !slices.Contains(slices.Collect(maps.Keys(orders)), g.Sort) {
		g.Sort = "name"
	}
	return orders[g.Sort]
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

// Pages returns the number of pages.
func (g paging) Pages() int { return max((g.Matched+g.size-1)/g.size, 1) }

// PageBeside links to the page that many pages away.
func (g paging) PageBeside(pages int) string {
	return link(g.path, "q", g.Contains, "show", g.Show, "sort", g.Sort, "page", strconv.Itoa(g.Page+pages))
}

// By links to the first page in another order.
func (g paging) By(sort string) string {
	return link(g.path, "q", g.Contains, "show", g.Show, "sort", sort)
}

// Only links to the first page with another filter.
func (g paging) Only(show string) string {
	return link(g.path, "q", g.Contains, "show", show, "sort", g.Sort)
}

// Path returns the page's path.
func (g paging) Path() string { return g.path }
