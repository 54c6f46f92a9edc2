package dashboard

import (
	"maps"
	"slices"
	"strconv"
)

// paging is which part of a list a page shows, and in which order.
type paging struct {
	path     string
	Contains string // the text that is looked for
	Show     string // which of them; empty for all
	Sort     string
	Page     int // from 1
	First    int // which one of those that match is the first, from 1
	Last     int
	Matched  int // how many match
	size     int
}

// column is one of a table: what it sorts by, if it does, and the key of its title.
type column struct {
	Key, Label string
	Number     bool
}

// paging is what was asked for, in that order if in none.
func (p *page) paging(path, sort string) paging {
	g := paging{path: path, Contains: p.form.Get("q"), Show: p.form.Get("show"), Sort: p.form.Get("sort"), Page: max(countOf(p.form.Get("page")), 1), size: pageSize}
	if g.Sort == "" {
		g.Sort = sort
	}
	return g
}

// orderOf is the order that was asked for; where it is none of these, by name.
func orderOf[T any](orders map[string]T, g *paging) T {
	if !slices.Contains(slices.Collect(maps.Keys(orders)), g.Sort) {
		g.Sort = "name"
	}
	return orders[g.Sort]
}

// cutPage leaves those of a list that are on the page.
func cutPage[T any](g *paging, list []T) []T {
	g.Matched = len(list)
	g.Page = min(g.Page, g.Pages())
	first := (g.Page - 1) * g.size
	list = list[first:min(first+g.size, len(list))]
	g.First, g.Last = first+1, first+len(list)
	return list
}

// Pages are how many there are.
func (g paging) Pages() int { return max((g.Matched+g.size-1)/g.size, 1) }

// Beside is the link to the page so many pages on.
func (g paging) Beside(pages int) string {
	return link(g.path, "q", g.Contains, "show", g.Show, "sort", g.Sort, "page", strconv.Itoa(g.Page+pages))
}

// By is the link to the first page in another order.
func (g paging) By(sort string) string {
	return link(g.path, "q", g.Contains, "show", g.Show, "sort", sort)
}

// Only is the link to the first page of others.
func (g paging) Only(show string) string {
	return link(g.path, "q", g.Contains, "show", show, "sort", g.Sort)
}

// Path is that of the page.
func (g paging) Path() string { return g.path }
