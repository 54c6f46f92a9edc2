package dashboard

import (
	"errors"
	"html"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/inspect"
	"github.com/mix-basic/delayer/internal/testing/clienttest"
	"github.com/mix-basic/delayer/internal/testing/redistest"
	"github.com/mix-basic/delayer/internal/web"
)

// check fails the test on an error.
var check = redistest.Check

// eventually waits until a condition holds.
var eventually = redistest.Until

// fixture is a server with a dashboard on a private Redis, and a browser without scripts.
type fixture struct {
	*client.Client
	*redistest.Server
	dashboard *Dashboard
	site      *httptest.Server
	browser   *http.Client
}

// start starts a fixture with the given options.
func start(t testing.TB, o web.Options) *fixture {
	t.Helper()
	r := redistest.Start(t)
	return startOn(t, o, r, r.Addr)
}

// startOn starts a fixture that uses Redis at the given address.
func startOn(t testing.TB, o web.Options, r *redistest.Server, addr string) *fixture {
	t.Helper()
	return startWith(t, o, r, addr, 1)
}

// startWith starts a fixture with several partitions.
func startWith(t testing.TB, o web.Options, r *redistest.Server, addr string, partitions int) *fixture {
	t.Helper()
	on := redistest.Must(client.Connect(client.PoolOptions{Addr: addr, Partitions: partitions}))
	c := redistest.Must(client.New(on))
	d := New(c, inspect.New(clienttest.Jobs(on, "")), Options{ReadOnly: o.ReadOnly, Version: "1.2.3"})
	site := httptest.NewServer(web.New(o, d.Area()))
	t.Cleanup(func() {
		site.Close()
		c.Close()
		on.Close()
	})
	browser := site.Client()
	browser.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &fixture{c, r, d, site, browser}
}

// response is the answer to a request.
type response struct {
	status int
	header http.Header
	body   string
}

// send sends a request; headers are alternating names and values. A Location in the answer is made absolute.
func (f *fixture) send(method, path, body string, headers ...string) response {
	f.TB.Helper()
	r, err := http.NewRequestWithContext(f.TB.Context(), method, f.site.URL+path, strings.NewReader(body))
	check(f.TB, err)
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	got, err := f.browser.Do(r)
	check(f.TB, err)
	defer got.Body.Close()
	text, err := io.ReadAll(got.Body)
	check(f.TB, err)
	if to, err := got.Location(); err == nil {
		got.Header.Set("Location", to.RequestURI())
	}
	return response{got.StatusCode, got.Header, string(text)}
}

func (f *fixture) get(path string, headers ...string) response {
	f.TB.Helper()
	return f.send(http.MethodGet, path, "", headers...)
}

// post sends a form of alternating names and values.
func (f *fixture) post(path string, namesAndValues ...string) response {
	f.TB.Helper()
	_, query, _ := strings.Cut(link("", namesAndValues...), "?")
	return f.send(http.MethodPost, path, query, "Content-Type", "application/x-www-form-urlencoded")
}

// follow follows a redirect like a browser.
func (f *fixture) follow(a response, headers ...string) response {
	f.TB.Helper()
	cookie, _, _ := strings.Cut(a.header.Get("Set-Cookie"), ";")
	return f.get(a.header.Get("Location"), append(headers, "Cookie", cookie)...)
}

// cut cuts the connection at the action's first command, and repeats the action if that command only
// tested an idle connection. prepare runs before each try.
func (f *fixture) cut(cutter *redistest.Cutter, answered bool, prepare func(), act func() response) response {
	f.TB.Helper()
	for {
		prepare()
		cutter.Arm(1, answered)
		got := act()
		if commands := cutter.Commands(); len(commands) == 0 || !strings.EqualFold(commands[0], "PING") {
			return got
		}
	}
}

// form sends a form with the given fields.
func (f *fixture) form(path string, values url.Values) response {
	f.TB.Helper()
	return f.send(http.MethodPost, path, values.Encode(), "Content-Type", "application/x-www-form-urlencoded")
}

// named returns the values of an attribute in the page, in order.
func (a response) named(attribute string) (names []string) {
	for _, match := range regexp.MustCompile(attribute+`="([^"]*)"`).FindAllStringSubmatch(a.body, -1) {
		name, _ := url.PathUnescape(html.UnescapeString(match[1]))
		names = append(names, name)
	}
	return names
}

// linkOf returns the target of the link with that element ID, or "".
func (a response) linkOf(id string) string {
	found := regexp.MustCompile(`id="` + id + `" href="([^"]*)"`).FindStringSubmatch(a.body)
	if found == nil {
		return ""
	}
	return "/" + html.UnescapeString(found[1])
}

func (f *fixture) push(topic, id, body string, delay time.Duration) {
	f.TB.Helper()
	_, err := f.Push(f.TB.Context(), client.Message{Topic: topic, ID: id, Body: body}, delay)
	check(f.TB, err)
}

func (f *fixture) reserve(topic string) *client.Delivery {
	f.TB.Helper()
	d, err := f.Reserve(f.TB.Context(), time.Hour, topic)
	check(f.TB, err)
	return d
}

// bury makes a dead letter. Its reason is not its error, as that of a job whose attempts are used up.
func (f *fixture) bury(topic, id, body, reason, cause string) {
	f.TB.Helper()
	f.push(topic, id, body, 0)
	check(f.TB, f.reserve(topic).Bury(f.TB.Context(), errors.New(cause)))
	f.Do("HSET", "delayer:dead_letter:"+id, "reason", reason)
}

// has checks the status and that the page contains the parts.
func (a response) has(t testing.TB, what string, status int, parts ...string) {
	t.Helper()
	if a.status != status {
		t.Errorf("%s: status %d, want %d: %.300s", what, a.status, status, a.body)
	}
	for _, part := range parts {
		if !strings.Contains(a.body, part) {
			t.Errorf("%s: no %q in %.3000s", what, part, a.body)
		}
	}
}

// marks checks that only this field has the focus and is marked as wrong, and that it refers to the message.
func (a response) marks(t testing.TB, what, field string) {
	t.Helper()
	var marked []string
	for _, found := range regexp.MustCompile(`<(?:input|textarea) name="([a-z_]+)"[^>]* aria-invalid="true" aria-describedby="problem" autofocus`).FindAllStringSubmatch(a.body, -1) {
		marked = append(marked, found[1])
	}
	if len(marked) != 1 || marked[0] != field || strings.Count(a.body, "aria-invalid") != 1 || strings.Count(a.body, "autofocus") != 1 || strings.Count(a.body, `id="problem"`) != 1 {
		t.Errorf("%s: %q are marked, want %q", what, marked, field)
	}
}
