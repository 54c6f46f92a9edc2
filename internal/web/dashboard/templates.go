package dashboard

import (
	"embed"
	"html/template"
	"io/fs"
	"path"
	"strings"
	"time"
)

//go:embed templates
var templateFiles embed.FS

// templates are one set for each page: what all have in common, and its own content.
var templates = func() map[string]*template.Template {
	common := template.Must(template.New("").Funcs(template.FuncMap{
		"typable":   typable,
		"pieces":    pieces,
		"lines":     lines,
		"firstLine": firstLine,
		"cut":       cut,
		"link":      link,
		"pack":      pack,
		"number":    number,
		"rate":      rate,
		"size":      func(n int) string { return size(int64(n)) },
		"size64":    size,
		"static":    staticURL,
	}).ParseFS(templateFiles, "templates/common/*.html"))
	sets := map[string]*template.Template{}
	names, err := fs.Glob(templateFiles, "templates/*.html")
	if err != nil {
		panic(err)
	}
	for _, name := range names {
		set := template.Must(template.Must(common.Clone()).ParseFS(templateFiles, name))
		sets[strings.TrimSuffix(path.Base(name), ".html")] = set
	}
	return sets
}()

// What the templates ask a page for.

// labelled is a part of a page with its label, row one of a row, and listening one of programs.
type (
	labelled struct {
		Page  *page
		Label string
	}
	row struct {
		Page *page
		Row  any
	}
	listening struct {
		Page   *page
		Table  listenersTable
		Topics bool
	}
)

func (p *page) Of(label string) labelled { return labelled{p, label} }

func (p *page) Row(of any) row { return row{p, of} }

func (p *page) Listeners(t listenersTable, topics bool) listening { return listening{p, t, topics} }

// Ago is for how long something has been so since that time.
func (p *page) Ago(since time.Time) string { return p.Duration(p.now.Sub(since)) }

// Themes are the choices.
func (p *page) Themes() []string { return themes }

// With is the link to this page with another choice.
func (p *page) With(name, value string) string {
	query := p.at.Query()
	query.Set(name, value)
	return p.at.Path + "?" + query.Encode()
}

// When is how the time is shown; nil if it is zero.
func (p *page) When(t time.Time) *moment { return p.moment(t, p.now) }

// Count is how a number is shown that may be unknown.
func (p *page) Count(n int) string {
	if n < 0 {
		return p.T("unreadable")
	}
	return number(n)
}

// done is what was done to n; empty if there is no such action.
func (p *page) done(action string, n int) string {
	key := "done." + action
	text, ok := texts[key]
	switch {
	case !ok:
		return ""
	case strings.Contains(text[p.language], "%"):
		return p.T(key, number(n))
	}
	return p.T(key)
}
