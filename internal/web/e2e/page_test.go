package e2e

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// page is a browser tab on the dashboard of a daemon with its own Redis.
type page struct {
	*testing.T
	ctx   context.Context
	url   string
	redis *redistest.Server
}

// openPage starts a daemon and a browser. lines are added to [http].
func openPage(t *testing.T, lines string) page {
	t.Helper()
	redis := redistest.Start(t)
	url := startDelayer(t, redis, lines)
	return page{t, openBrowser(t), strings.TrimSuffix(url, "/"), redis}
}

// do runs actions in the browser.
func (p page) do(actions ...chromedp.Action) {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	check(p, chromedp.Run(ctx, actions...))
}

func (p page) open(path string) {
	p.Helper()
	p.do(chromedp.Navigate(p.url+path), chromedp.WaitReady("#main"))
}

// openUntil loads the page until the script returns true. Counts on pages are up to a second old.
func (p page) openUntil(path, script string) {
	p.Helper()
	p.until(path, script, func() { p.open(path) })
}

// until waits until the script returns true. It calls before ahead of each check.
func (p page) until(what, script string, before func()) {
	p.Helper()
	for began := time.Now(); ; {
		before()
		if p.eval(`String(Boolean(`+script+`))`) == "true" {
			return
		}
		if time.Since(began) > patience {
			p.Fatalf("%s: %s is not so after %v: %s", what, script, patience, p.text("#main"))
		}
	}
}

// click clicks an element that leads to another page, and waits for that page.
func (p page) click(selector string) {
	p.Helper()
	p.do(chromedp.ActionFunc(func(ctx context.Context) error {
		_, err := chromedp.RunResponse(ctx, chromedp.Click(selector, chromedp.ByQuery, chromedp.NodeVisible))
		return err
	}), chromedp.WaitReady("#main"))
}

// says fails the test if the visible text of an element differs.
func (p page) says(selector, want string) {
	p.Helper()
	if got := p.text(selector); got != want {
		p.Errorf("%s says %q, want %q: %s", selector, got, want, p.text("#main"))
	}
}

// shows fails the test if the visible text of an element lacks one of the parts.
func (p page) shows(selector string, parts ...string) {
	p.Helper()
	for _, part := range parts {
		if got := p.text(selector); !strings.Contains(got, part) {
			p.Errorf("no %q in %s: %s", part, selector, got)
		}
	}
}

func (p page) fill(selector, text string) {
	p.Helper()
	p.eval(`document.querySelector(` + quoted(selector) + `).value = ""`)
	p.do(chromedp.SendKeys(selector, text, chromedp.ByQuery))
}

// text returns the visible text of an element; empty if it is missing.
func (p page) text(selector string) string {
	p.Helper()
	return p.eval(`(document.querySelector(` + quoted(selector) + `) || {innerText: ""}).innerText`)
}

// eval returns a script's value, a string.
func (p page) eval(script string) (value string) {
	p.Helper()
	p.do(chromedp.Evaluate(script, &value))
	return value
}

func quoted(text string) string {
	literal, _ := json.Marshal(text)
	return string(literal)
}

// job returns the path of the job's page.
func job(id string) string { return "/ui/job?id=" + escaped(id) }

// stateOf is a script that returns the state on the job's page; "gone" if there is no job.
const stateOf = `(document.querySelector("#not-found") ? "gone" : document.querySelector("#state").dataset.state)`

// becomes loads the job's page until it shows the state.
func (p page) becomes(id, state string) {
	p.Helper()
	p.openUntil(job(id), stateOf+" === "+quoted(state))
}

// is fails the test if the job's page shows another state.
func (p page) is(id, state string) {
	p.Helper()
	p.open(job(id))
	if got := p.eval(stateOf); got != state {
		p.Fatalf("%q is %s, want %s", id, got, state)
	}
}

// call calls an HTTP API and returns its answer.
func (p page) call(path string, request any) map[string]any {
	p.Helper()
	var body []byte
	if request != nil {
		body, _ = json.Marshal(request)
	}
	r, err := http.NewRequest(http.MethodPost, p.url+path, strings.NewReader(string(body)))
	check(p, err)
	r.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(r)
	check(p, err)
	defer response.Body.Close()
	text, _ := io.ReadAll(response.Body)
	if response.StatusCode >= 300 {
		p.Fatalf("%s: %s %s", path, response.Status, text)
	}
	var answer map[string]any
	if len(text) > 0 {
		if err := json.Unmarshal(text, &answer); err != nil {
			p.Fatalf("%s: %v: %s", path, err, text)
		}
	}
	if code, ok := answer["code"]; ok && code != 0.0 {
		p.Fatalf("%s: %s", path, text)
	}
	return answer
}

// reserve reserves a job of the topic.
func (p page) reserve(topic string) map[string]any {
	p.Helper()
	return p.call("/v1/reserve", map[string]any{"topics": []string{topic}})["deliveries"].([]any)[0].(map[string]any)
}

// bury buries a reserved job.
func (p page) bury(delivery map[string]any, cause string) {
	p.Helper()
	path := "/v1/jobs/" + escaped(delivery["id"].(string)) + "/bury"
	p.call(path, map[string]any{"topic": delivery["topic"], "token": delivery["token"], "error": cause})
}

// escaped returns a text as a path segment or a query value.
func escaped(text string) string { return strings.ReplaceAll(url.QueryEscape(text), "+", "%20") }
