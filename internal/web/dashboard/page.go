package dashboard

import (
	"bytes"
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/mix-basic/delayer/internal/web"
)

// page is one request and the page that answers it.
type page struct {
	*Dashboard
	language
	w       http.ResponseWriter
	r       *http.Request
	ctx     context.Context
	now     time.Time // as Redis has it where that is known
	form    url.Values
	Section string // which link of the navigation is lit
	Title   []piece
	Data    any
	Done    string   // what an action has done that led here; empty if none did
	Trouble *trouble // what an action has met that was to be done here; nil if none did
	instead *url.URL // of a POST, what to load for another language
	status  int
}

// maxForm is how large a form may be: a body of 1 MiB, in which each byte may take three.
const maxForm = 4 << 20

// page makes a handler of what serves a page within a time. What it returns as an error is shown.
func (d *Dashboard) page(limit time.Duration, serve func(*page) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), limit)
		defer cancel()
		p := d.newPage(w, r)
		p.ctx = ctx
		err := p.readForm()
		if err == nil {
			err = serve(p)
		}
		if err != nil {
			p.fail(err)
		}
	}
}

func (d *Dashboard) newPage(w http.ResponseWriter, r *http.Request) *page {
	p := &page{Dashboard: d, language: languageOf(r), w: w, r: r, ctx: r.Context(), now: time.Now(), status: http.StatusOK, instead: &url.URL{Path: "/"}}
	keepChoice(w, r, "lang", languages...)
	keepChoice(w, r, "theme", themes...)
	return p
}

// readForm reads the query, or the body of a POST.
func (p *page) readForm() error {
	if p.r.Method != http.MethodPost {
		p.form = p.r.URL.Query()
		return nil
	}
	body, err := web.ReadBody(p.w, p.r, maxForm)
	if err != nil {
		return err
	}
	if p.form, err = url.ParseQuery(string(body)); err != nil {
		return &wrong{"wrong.form", err.Error()}
	}
	return nil
}

// given is the value of that name in the query or form.
func (p *page) given(name string) (string, error) { return unpack(p.form, name) }

// givens are the values of these names.
func (p *page) givens(names ...string) ([]string, error) {
	values := make([]string, len(names))
	for i, name := range names {
		var err error
		if values[i], err = p.given(name); err != nil {
			return nil, err
		}
	}
	return values, nil
}

// setClock has times seen from Redis's clock, if it is known.
func (p *page) setClock(redis time.Time) {
	if !redis.IsZero() {
		p.now = redis
	}
}

// lead sends the browser to a page.
func (p *page) lead(url string) error {
	p.w.Header().Set("Location", url)
	p.w.WriteHeader(http.StatusSeeOther)
	return nil
}

// show answers with the page of that name.
func (p *page) show(name, section string, title []piece, data any) error {
	p.Section, p.Title, p.Data, p.Done = section, title, data, p.takeFlash()
	var out bytes.Buffer
	if err := templates[name].ExecuteTemplate(&out, "layout", p); err != nil {
		http.Error(p.w, err.Error(), http.StatusInternalServerError) // a mistake of this package
		return nil
	}
	p.w.Header().Set("Content-Type", "text/html; charset=utf-8")
	p.w.WriteHeader(p.status)
	p.w.Write(out.Bytes())
	return nil
}
