package dashboard

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"html/template"
	"io/fs"
	"net/http"
	"path"
	"reflect"
	"strings"
	"sync"
	"time"
)

//go:embed templates
var templateFiles embed.FS

// templates returns one set per page: the common parts and the page's own content. They are parsed at the first use, as only a
// daemon shows pages: parsing them at the start takes each command of package main more than half of its CPU.
var templates = sync.OnceValue(func() map[string]*template.Template {
	common := template.Must(template.New("").Funcs(template.FuncMap{
		"first":     first,
		"beyond":    beyond,
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
})

// first returns the first n elements of the list, beyond how many there are more.
func first(n int, list any) any {
	all := reflect.ValueOf(list)
	return all.Slice(0, min(n, all.Len())).Interface()
}

func beyond(n int, list any) int { return max(reflect.ValueOf(list).Len()-n, 0) }

// Methods used by the templates.

// part is what a shared template gets: the page, and what of it to show.
type part struct {
	Page *page
	Of   any
}

func (p *page) Part(of any) part { return part{p, of} }

// Ago returns how long ago the time was.
func (p *page) Ago(since time.Time) string { return p.Duration(p.now.Sub(since)) }

func (p *page) Themes() []string { return themes }

// When returns the time for display, or nil if it is zero.
func (p *page) When(t time.Time) *instant { return p.instant(t, p.now) }

func (p *page) Count(n int) string {
	if n < 0 {
		return p.T("unreadable")
	}
	return number(n)
}

//go:embed static
var staticFiles embed.FS

// stamp changes with the static files, so that browsers can cache them until then.
var stamp = func() string {
	all := sha256.New()
	fs.WalkDir(staticFiles, "static", func(name string, _ fs.DirEntry, _ error) error {
		content, _ := staticFiles.ReadFile(name) // nothing of a directory
		all.Write(content)
		return nil
	})
	return hex.EncodeToString(all.Sum(nil)[:8])
}()

func staticURL(name string) string { return "ui/static/" + name + "?v=" + stamp }

// static serves the files. Requests with the current stamp may be cached.
var static = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Path, "/ui/")
	if _, err := staticFiles.ReadFile(name); err != nil { // a directory, too
		http.NotFound(w, r)
		return
	}
	if r.URL.Query().Get("v") == stamp {
		w.Header().Set("Cache-Control", "private, max-age=31536000, immutable")
	}
	http.ServeFileFS(w, r, staticFiles, name)
})
