package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/exit"
	"github.com/mix-basic/delayer/internal/inspect"
	"github.com/mix-basic/delayer/internal/variables"
	"github.com/mix-basic/delayer/internal/view"
	"github.com/mix-basic/delayer/internal/web/api"
)

// request is one of /v1, which all operators' commands speak: with the daemon at --url or, without one, with the same
// handlers in this process.
type request struct {
	method string // empty: GET
	path   string // {topic}, {id} or {name} stands for the first argument
	query  url.Values
	body   *fields // nil: none
}

// with returns the request with more names and values in its query; empty values are left out.
func (r request) with(pairs ...string) request {
	query := url.Values{}
	maps.Copy(query, r.query)
	for pair := range slices.Chunk(pairs, 2) {
		if pair[1] != "" {
			query.Set(pair[0], pair[1])
		}
	}
	r.query = query
	return r
}

// fields are the members of a body, which come from flags and arguments.
type fields struct {
	members view.Object
	from    map[string]string // flag or argument, by member
	flags   map[string]string // all flags, by member
}

func newFields() *fields { return &fields{from: map[string]string{}, flags: map[string]string{}} }

// put adds a member.
func (b *fields) put(member, from string, value any) {
	b.from[member] = from
	b.members.Put(member, value)
}

// texts defines flags whose values become members of a body: texts, which may be durations. A name is FLAG or, if the
// member's differs, "FLAG MEMBER".
func (f *flagSet) texts(b *fields, names ...string) {
	f.fields(b, names, func(value string) (any, error) {
		if value == "" {
			return nil, errors.New("it is empty")
		}
		return value, nil
	})
}

// counts is texts for numbers.
func (f *flagSet) counts(b *fields, names ...string) {
	f.fields(b, names, func(value string) (any, error) {
		n, err := strconv.Atoi(value)
		if err != nil {
			return nil, errors.New("want a number")
		}
		return float64(n), nil // also negative, which /v1 refuses
	})
}

func (f *flagSet) fields(b *fields, names []string, read func(value string) (any, error)) {
	for _, name := range names {
		name, member, differs := strings.Cut(name, " ")
		if !differs {
			member = strings.ReplaceAll(name, "-", "_")
		}
		b.flags[member] = "--" + name
		f.one(name, func(value string) error {
			v, err := read(value)
			b.put(member, fmt.Sprintf("--%s %q", name, value), v)
			return err
		})
	}
}

// v1 answers requests.
type v1 struct {
	*http.Client
	url   string  // of the daemon; empty: this process
	name  string  // the url without a password, for errors
	token string  // empty: none
	wrong []error // in this process: what the answer does not say, for clients of an API must not see Redis's words
	// broken are the partitions that the last answer leaves out; nil: none.
	broken any
}

// inProcess returns a v1 without a daemon.
func inProcess(c *client.Client, jobs *inspect.Inspector) *v1 {
	v := &v1{}
	area := api.New(c, jobs, api.Options{MaxBody: math.MaxInt64, MaxWork: 24 * time.Hour, Failed: func(err error) { v.wrong = append(v.wrong, err) }})
	v.Client = &http.Client{Transport: handled{area.Handler}}
	return v
}

// handled sends requests to a handler.
type handled struct{ http.Handler }

func (h handled) RoundTrip(r *http.Request) (*http.Response, error) {
	answer := httptest.NewRecorder()
	h.ServeHTTP(answer, r)
	return answer.Result(), nil
}

// remote returns a v1 of the daemon at --url or DELAYER_URL, or nil without one. Redis's address on the command line is stronger than
// the variable.
func (o options) remote() (*v1, error) {
	name, address := "--url", o.url
	if address == "" && o.Redis == "" && o.Configuration == "" {
		name, address = variables.URL, os.Getenv(variables.URL)
	}
	if address == "" {
		return nil, nil
	}
	at, err := url.Parse(address)
	if err != nil || at.Scheme != "http" && at.Scheme != "https" || at.Host == "" || at.RawQuery != "" {
		return nil, exit.With(exit.Usage, fmt.Errorf("%s: want the address of a daemon's HTTP server, such as http://host:9277", name))
	}
	token := os.Getenv(variables.Token)
	if o.tokenFile != "" {
		text, err := os.ReadFile(o.tokenFile)
		if token = strings.TrimSpace(string(text)); err != nil || token == "" {
			return nil, exit.With(exit.Usage, fmt.Errorf("--token-file: %w", cmp.Or(err, errors.New("it is empty"))))
		}
	}
	return &v1{Client: &http.Client{Timeout: longestAnswer}, url: strings.TrimRight(at.String(), "/"), name: strings.TrimRight(at.Redacted(), "/"), token: token}, nil
}

// longestAnswer is how long a daemon may take: a request on many jobs takes up to five minutes.
const longestAnswer = 6 * time.Minute

// ask sends a request and returns the answer; nil if it has no content.
func (c *call) ask(ctx context.Context, r request) (view.Object, error) {
	path, err := c.fill(r.path)
	if err != nil {
		return nil, err
	}
	var body io.Reader
	if r.body != nil {
		body = strings.NewReader(jsonLine(r.body.members))
	}
	if len(r.query) > 0 {
		path += "?" + r.query.Encode()
	}
	sent, err := http.NewRequestWithContext(ctx, r.method, c.v1.url+path, body)
	if err != nil {
		return nil, exit.With(exit.Usage, err)
	}
	if body != nil {
		sent.Header.Set("Content-Type", "application/json")
	}
	if c.v1.token != "" {
		sent.Header.Set("Authorization", "Bearer "+c.v1.token)
	}
	c.v1.wrong, c.v1.broken = nil, nil
	answer, err := c.v1.Do(sent)
	if err != nil {
		return nil, c.noAnswer(ctx, err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return nil, c.noAnswer(ctx, err)
	}
	var o view.Object
	if len(text) > 0 {
		if o, err = view.Read(text); err != nil {
			return nil, exit.With(exit.Failed, fmt.Errorf("%s does not respond as Delayer's /v1 does: %s", c.v1.name, http.StatusText(answer.StatusCode)))
		}
	}
	if answer.StatusCode >= http.StatusBadRequest {
		return nil, c.refused(o, r.body)
	}
	c.v1.broken = o.Get("broken_partitions")
	return o, nil
}

// fill puts the first argument into a path.
func (c *call) fill(path string) (string, error) {
	before, rest, has := strings.Cut(path, "{")
	if !has {
		return path, nil
	}
	name, after, _ := strings.Cut(rest, "}")
	if c.arguments[0] == "" {
		return "", exit.With(exit.Usage, fmt.Errorf("%s: %s is empty", c.command.name, strings.ToUpper(name)))
	}
	return before + api.Escape(c.arguments[0]) + after, nil
}

func (c *call) noAnswer(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if wrapped := (*url.Error)(nil); errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	return exit.With(exit.Redis, fmt.Errorf("no response from %s: %w", c.v1.name, err))
}

// notes says which parts of the last answer are missing, and why.
func (c *call) notes() (notes []string) {
	for _, err := range c.v1.wrong {
		notes = append(notes, "not complete: "+printable(err.Error(), ""))
	}
	if c.v1.broken != nil && notes == nil {
		notes = append(notes, fmt.Sprintf("not complete: partitions that can't be read: %v", c.v1.broken))
	}
	return notes
}

// pageSize is how many jobs or topics one request reads.
const pageSize = inspect.MaxPage

// pages iterates over the objects of a list that /v1 answers in pages.
func (c *call) pages(ctx context.Context, r request, name string) func(yield func(view.Object, error) bool) {
	return func(yield func(view.Object, error) bool) {
		r := r.with("limit", fmt.Sprint(pageSize))
		for {
			page, err := c.ask(ctx, r)
			if err != nil {
				yield(nil, err)
				return
			}
			for _, o := range objects(page, name) {
				if !yield(o, nil) {
					return
				}
			}
			cursor := page.TextOf("cursor")
			if cursor == "" {
				return
			}
			r = r.with("cursor", cursor)
		}
	}
}

// objects returns a list of an answer.
func objects(o view.Object, name string) (list []view.Object) {
	values, _ := o.Get(name).([]any)
	for _, v := range values {
		if o, is := v.(view.Object); is {
			list = append(list, o)
		}
	}
	return list
}

// problem is an answer that says what went wrong, see RFC 9457.
type problem struct {
	kind string // last part of its type
	text string
}

func (p *problem) Error() string { return p.text }

// isProblem reports whether an answer was a problem of that kind.
func isProblem(err error, kind string) bool {
	p := new(problem)
	return errors.As(err, &p) && p.kind == kind
}

// noSuch is what a command did not find, by its first word.
var noSuch = map[string]string{"dead": "dead letter", "schedule": "schedule"}

// refused returns the error for a problem. It names the flag or argument that is wrong.
func (c *call) refused(o view.Object, sent *fields) error {
	kind := o.TextOf("type")
	p := &problem{kind: kind[strings.LastIndex(kind, ":")+1:]}
	words := strings.Trim(fmt.Sprintf("%q", c.arguments[:min(len(c.arguments), c.command.named())]), "[]")
	if id := o.TextOf("id"); id != "" {
		words = fmt.Sprintf("%q", id)
	}
	before := strings.TrimSpace(c.command.name + " " + words)
	detail := o.TextOf("detail")
	switch p.kind {
	case "bad-request", "invalid", "unsupported-media-type":
		name := strings.TrimSuffix(strings.TrimPrefix(o.TextOf("field"), "/"), "_base64")
		if sent != nil && name != "" {
			name = cmp.Or(sent.from[name], name)
			detail = sent.inFlags(detail)
		}
		if parameter := o.TextOf("parameter"); parameter != "" {
			name = strings.ToUpper(parameter)
			if value, given := c.given[parameter]; given {
				name = fmt.Sprintf("--%s %q", parameter, value)
			}
		}
		if p.text = strings.TrimPrefix(detail, "delayer: "); name != "" {
			p.text = name + ": " + p.text
		}
		if !strings.HasPrefix(p.text, c.command.name+":") {
			p.text = c.command.name + ": " + p.text
		}
		return exit.With(exit.Usage, p)
	case "not-found":
		first, _, _ := strings.Cut(c.command.name, " ")
		p.text = before + ": no such " + cmp.Or(noSuch[first], "job")
		return exit.With(exit.Nothing, p)
	case "exists", "other-topic", "reserved":
		p.text = before + ": " + detail
	case "unauthorized":
		p.text = fmt.Sprintf("%s wants a token: set DELAYER_TOKEN, or use --token-file", c.v1.name)
		return exit.With(exit.Usage, p)
	default:
		if len(c.v1.wrong) > 0 {
			return c.v1.wrong[0]
		}
		title := o.TextOf("title")
		p.text = before + ": " + strings.ToLower(title[:min(1, len(title))]) + title[min(1, len(title)):]
		if detail != "" {
			p.text += ": " + detail
		}
		if strings.HasPrefix(p.kind, "redis-") {
			return exit.With(exit.Redis, p)
		}
	}
	return exit.With(exit.Failed, p)
}

var memberName = regexp.MustCompile(`\b[a-z_]+\b`)

// inFlags returns a text about the body's members with their flags instead.
func (b *fields) inFlags(text string) string {
	return memberName.ReplaceAllStringFunc(text, func(word string) string { return cmp.Or(b.flags[word], word) })
}
