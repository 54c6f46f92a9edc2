package dashboard

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mix-basic/delayer/internal/duration"
	"github.com/mix-basic/delayer/internal/web"
)

// page is a request and the page that answers it.
type page struct {
	*Dashboard
	language
	w       http.ResponseWriter
	r       *http.Request
	ctx     context.Context
	now     time.Time // Redis's time where known
	form    url.Values
	at      *url.URL // for links to other languages and themes
	status  int
	Theme   string // one of themes
	Name    string // name of the template
	Data    any
	Done    string   // report of the action that led here; may be empty
	Trouble *problem // error of the action that led here; may be nil
	Field   string   // form field to correct; may be empty
}

// themes are the choices; auto follows the browser.
var themes = []string{"auto", "light", "dark"}

// maxForm is the maximum size of a form: a body of 1 MiB whose bytes may take three each.
const maxForm = 4 << 20

// page returns a handler that calls serve with a time limit and shows its error.
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
			p.fail(p.problemOf(err))
		}
	}
}

func (d *Dashboard) newPage(w http.ResponseWriter, r *http.Request) *page {
	p := &page{Dashboard: d, w: w, r: r, now: time.Now(), at: r.URL, status: http.StatusOK}
	if r.Method == http.MethodPost {
		p.at = &url.URL{Path: "/"}
	}
	p.language = languageOf(p.choice("lang", languages...), r.Header.Get("Accept-Language"))
	p.Theme = cmp.Or(p.choice("theme", themes...), "auto")
	return p
}

// choice returns the user's choice, from this request or an earlier one, or "". A new choice is kept for a
// year.
func (p *page) choice(name string, of ...string) string {
	if chosen := p.r.URL.Query().Get(name); slices.Contains(of, chosen) {
		p.setCookie("delayer_"+name, chosen, 365*24*3600, http.SameSiteLaxMode)
		return chosen
	}
	if cookie, err := p.r.Cookie("delayer_" + name); err == nil && slices.Contains(of, cookie.Value) {
		return cookie.Value
	}
	return ""
}

// setCookie stores a value in the browser for some seconds, or deletes it.
func (p *page) setCookie(name, value string, seconds int, site http.SameSite) {
	http.SetCookie(p.w, &http.Cookie{Name: name, Value: value, Path: "/", MaxAge: seconds, Secure: web.Encrypted(p.r), HttpOnly: true, SameSite: site})
}

func (p *page) readForm() error {
	text := p.r.URL.RawQuery
	if p.r.Method == http.MethodPost {
		body, err := web.ReadBody(p.w, p.r, maxForm)
		if err != nil {
			return err
		}
		text = string(body)
	}
	form, err := url.ParseQuery(text)
	if p.form = form; err != nil || unpack(form) != nil {
		return &wrong{key: "wrong.form"}
	}
	return nil
}

// labels are the labels of required fields.
var labels = map[string]string{"topic": "topic", "id": "job.id", "body": "job.body", "schedule": "schedules.name"}

// needs returns an error if one of the values is missing.
func (p *page) needs(names ...string) error {
	for _, name := range names {
		if p.form.Get(name) == "" {
			return &wrong{"wrong.missing", p.T(cmp.Or(labels[name], name)), name}
		}
	}
	return nil
}

// typed returns what was typed into a field, without the blanks around it.
func (p *page) typed(name string) string { return strings.TrimSpace(p.form.Get(name)) }

// duration returns the duration typed into a field, or 0 if it is empty.
func (p *page) duration(name string) (time.Duration, error) {
	d, err := duration.Parse(p.typed(name))
	if p.typed(name) != "" && (err != nil || d < 0) {
		return 0, &wrong{"wrong." + name, p.form.Get(name), name}
	}
	return d, nil
}

// whole returns the positive number typed into a field, or 0 if it is empty.
func (p *page) whole(name string) (int, error) {
	n, err := strconv.Atoi(p.typed(name))
	if p.typed(name) != "" && (err != nil || n <= 0) {
		return 0, &wrong{"wrong." + name, p.form.Get(name), name}
	}
	return n, nil
}

// setClock uses Redis's time, if known.
func (p *page) setClock(redis time.Time) { p.now = cmp.Or(redis, p.now) }

// lead redirects the browser to a page, by its link.
func (p *page) lead(link string) error {
	p.w.Header().Set("Location", p.Root()+link)
	p.w.WriteHeader(http.StatusSeeOther)
	return nil
}

// show answers with the named template.
func (p *page) show(name string, data any) error {
	p.Name, p.Data, p.Done = name, data, p.takeFlash()
	var out bytes.Buffer
	if err := templates()[name].ExecuteTemplate(&out, "layout", p); err != nil {
		http.Error(p.w, err.Error(), http.StatusInternalServerError) // a bug in this package
		return nil
	}
	p.w.Header().Set("Content-Type", "text/html; charset=utf-8")
	p.w.WriteHeader(p.status)
	p.w.Write(out.Bytes())
	return nil
}

const (
	// flashCookie carries the report of an action to the next page, which shows it once. A link could be
	// forged.
	flashCookie = "delayer_done"
	// flashSeconds is how long the cookie lives if the browser never gets there.
	flashSeconds = 60
)

// see redirects the browser to a page that reports the action on n subjects.
func (p *page) see(link, action string, n int) error {
	p.touch()
	value := strings.Join([]string{placeOf(link), action, strconv.Itoa(n)}, ".")
	p.setCookie(flashCookie, value, flashSeconds, http.SameSiteStrictMode)
	return p.lead(link)
}

// takeFlash returns the report for this page, if any, and deletes it.
func (p *page) takeFlash() string {
	cookie, err := p.r.Cookie(flashCookie)
	if err != nil || p.r.Method != http.MethodGet {
		return ""
	}
	parts := strings.Split(cookie.Value, ".")
	if len(parts) != 3 || parts[0] != placeOf(p.Self()) {
		return ""
	}
	p.setCookie(flashCookie, "", -1, http.SameSiteStrictMode)
	return p.done(parts[1], countOf(parts[2]))
}

// placeOf hashes a link, which may be too long for a cookie.
func placeOf(link string) string {
	sum := sha256.Sum256([]byte(link))
	return hex.EncodeToString(sum[:8])
}

// Links are relative to the dashboard's root, which each page names (see page.Root), so that it may lie behind any path of a
// reverse proxy. They carry topics, IDs and whatever else may hold any bytes in percent-encoding.
//
// A form field can't: browsers change line breaks and what is not UTF-8. So the value of a field that may hold any bytes is
// packed, and the field's name ends with "*" (see unpack).

// link returns a path with a query of alternating names and values; empty values are left out.
func link(path string, namesAndValues ...string) string {
	query := url.Values{}
	for i := 0; i+1 < len(namesAndValues); i += 2 {
		if name, value := namesAndValues[i], namesAndValues[i+1]; value != "" {
			query.Set(name, value)
		}
	}
	return linkTo(path, query)
}

func linkTo(path string, query url.Values) string {
	if len(query) == 0 {
		return path
	}
	return path + "?" + strings.ReplaceAll(query.Encode(), "+", "%20")
}

// pack encodes any bytes for a form field or an attribute.
func pack(text string) string { return strings.ReplaceAll(url.QueryEscape(text), "+", "%20") }

// unpack decodes the packed fields of a form.
func unpack(form url.Values) error {
	for field, values := range form {
		name, is := strings.CutSuffix(field, "*")
		if !is {
			continue
		}
		for i := range values {
			value, err := url.PathUnescape(values[i])
			if err != nil {
				return err
			}
			values[i] = value
		}
		form[name] = values
		delete(form, field)
	}
	return nil
}

// Root is the relative address of the dashboard's root.
func (p *page) Root() string {
	above := strings.Count(p.r.URL.EscapedPath(), "/") - 1
	if above <= 0 {
		return "./"
	}
	return strings.Repeat("../", above)
}

// Self links to this page.
func (p *page) Self() string { return fromRoot(p.r.URL) }

// With links to this page with another choice.
func (p *page) With(name, value string) string {
	query := p.at.Query()
	query.Set(name, value)
	return linkTo(fromRoot(&url.URL{Path: p.at.Path}), query)
}

// fromRoot returns the address, in which the path begins with "/", relative to the root.
func fromRoot(u *url.URL) string { return strings.TrimPrefix(u.RequestURI(), "/") }
