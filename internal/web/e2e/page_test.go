package e2e

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// page is a browser's tab on the dashboard.
type page struct {
	*testing.T
	ctx context.Context
	url string
}

func openPage(t *testing.T, url string) page {
	return page{t, openBrowser(t, 1280, 900), strings.TrimSuffix(url, "/")}
}

func (p page) open(path string) {
	p.Helper()
	do(p.T, p.ctx, chromedp.Navigate(p.url+path), chromedp.WaitReady("#main"))
}

// openUntil loads the page until the script is true of it. What pages count is up to a second old.
func (p page) openUntil(path, script string) {
	p.Helper()
	for began := time.Now(); ; {
		p.open(path)
		if p.eval(`String(Boolean(`+script+`))`) == "true" {
			return
		}
		if time.Since(began) > patience {
			p.Fatalf("%s: %s is not so after %v: %s", path, script, patience, p.text("#main"))
		}
	}
}

// click clicks on what leads to another page, and waits for that.
func (p page) click(selector string) {
	p.Helper()
	do(p.T, p.ctx, navigating(chromedp.Click(selector, chromedp.ByQuery, chromedp.NodeVisible)), chromedp.WaitReady("#main"))
}

// navigating does an action that leads to another page, and waits until that is there.
func navigating(action chromedp.Action) chromedp.Action {
	return chromedp.ActionFunc(func(ctx context.Context) error {
		_, err := chromedp.RunResponse(ctx, action)
		return err
	})
}

func (p page) fill(selector, text string) {
	p.Helper()
	p.eval(`document.querySelector(` + quoted(selector) + `).value = ""`)
	do(p.T, p.ctx, chromedp.SendKeys(selector, text, chromedp.ByQuery))
}

// text is what the reader sees of an element; empty if it is not there.
func (p page) text(selector string) string {
	p.Helper()
	return p.eval(`(document.querySelector(` + quoted(selector) + `) || {innerText: ""}).innerText`)
}

// eval is a script's value, a string.
func (p page) eval(script string) (value string) {
	p.Helper()
	do(p.T, p.ctx, chromedp.Evaluate(script, &value))
	return value
}

func quoted(text string) string {
	literal, _ := json.Marshal(text)
	return string(literal)
}

// job is the job's page.
func job(id string) string { return "/ui/job?id=" + base64.RawURLEncoding.EncodeToString([]byte(id)) }

// stateOf is what the job's page says of its state; "gone" if there is no job.
const stateOf = `(document.querySelector("#not-found") ? "gone" : document.querySelector("#state").dataset.state)`

// becomes loads the job's page until it says so.
func (p page) becomes(id, state string) {
	p.Helper()
	p.openUntil(job(id), stateOf+" === "+quoted(state))
}

// is fails the test if the job's page says something else.
func (p page) is(id, state string) {
	p.Helper()
	p.open(job(id))
	if got := p.eval(stateOf); got != state {
		p.Fatalf("%q is %s, want %s", id, got, state)
	}
}

// call is a call of an HTTP API; it returns what is under data.
func (p page) call(path string, request any) map[string]any {
	p.Helper()
	body, _ := json.Marshal(request)
	response, err := http.Post(p.url+path, "application/json", strings.NewReader(string(body)))
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

// escaped is a text as a segment of a path or a value in a query.
func escaped(text string) string { return strings.ReplaceAll(url.QueryEscape(text), "+", "%20") }
