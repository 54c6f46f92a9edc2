package dashboard

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/store"
)

type jobData struct {
	ID         string
	Job        *client.JobInfo // nil if there is no such job
	Body       body
	Unreadable []piece // why the job could not be read
	Missing    bool    // no job has this ID
	Delay      string  // as typed in
}

// job serves a job's page. After a failed action it is shown even if Redis is down.
func (d *Dashboard) job(p *page) error {
	data := jobData{ID: p.form.Get("id"), Delay: p.form.Get("delay")}
	job, err := d.client.Get(p.ctx, data.ID)
	switch {
	case err == nil:
		data.Job, data.Body = &job, bodyOf(job.Body)
	case errors.Is(err, client.ErrNotFound):
		p.status, data.Missing = http.StatusNotFound, true
	case unreadable(err):
		data.Unreadable = pieces(err.Error())
	case p.Trouble == nil:
		return err
	}
	return p.show("job", data)
}

// inBase64 starts an ID typed in as base64, for IDs that are not text.
const inBase64 = "base64:"

// find redirects to the job with the ID that was typed in.
func (d *Dashboard) find(p *page) error {
	typed := p.form.Get("q")
	id := typed
	if encoded, is := strings.CutPrefix(typed, inBase64); is {
		raw, err := base64.RawStdEncoding.DecodeString(strings.NewReplacer("-", "+", "_", "/", "=", "", " ", "").Replace(encoded))
		if err != nil {
			p.meet(&wrong{"wrong.base64", "ID", "q"}, "")
		}
		id = string(raw)
	}
	if typed == "" || p.Trouble != nil {
		return p.show("find", typed)
	}
	return p.lead(link("ui/job", "id", id))
}

const (
	// maxShown is how many bytes of a body are shown.
	maxShown = 64 << 10
	// maxHex is how many bytes of a binary body are shown.
	maxHex = 512
	// maxDepth is how deep a JSON body may be nested to be indented; it bounds what a hostile one grows to.
	maxDepth = 32
)

// body is a body for display.
type body struct {
	Size  int
	Kind  string // json, text or binary
	Text  string
	Shown int // bytes of the body that Text shows
}

func bodyOf(raw string) body {
	b := body{Size: len(raw), Kind: "text", Text: cut(raw, maxShown)}
	b.Shown = len(b.Text)
	var pretty bytes.Buffer
	switch {
	case !isText(b.Text):
		b.Kind, b.Shown = "binary", min(len(raw), maxHex)
		b.Text = hex.Dump([]byte(raw[:b.Shown]))
	case b.Shown == len(raw) && depth(raw) <= maxDepth && json.Indent(&pretty, []byte(raw), "", "  ") == nil:
		b.Kind = "json"
		if pretty.Len() <= 4*maxShown {
			b.Text = pretty.String()
		}
	}
	return b
}

// isText reports whether nearly all of the text is printable.
func isText(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, func(r rune) bool {
		return unicode.IsControl(r) && r != '\n' && r != '\t' && r != '\r'
	})
}

// depth returns how deep brackets are nested, including those in strings.
func depth(text string) int {
	deepest, now := 0, 0
	for i := range len(text) {
		switch text[i] {
		case '[', '{':
			now++
			deepest = max(deepest, now)
		case ']', '}':
			now--
		}
	}
	return deepest
}

// body serves the whole body as a download, so that a browser never interprets it.
func (d *Dashboard) body(p *page) error {
	job, err := d.client.Get(p.ctx, p.form.Get("id"))
	if err != nil {
		return err
	}
	h := p.w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("Content-Disposition", `attachment; filename="body.txt"`)
	h.Set("Content-Security-Policy", "default-src 'none'; sandbox")
	h.Set("Content-Length", strconv.Itoa(len(job.Body)))
	p.w.Write([]byte(job.Body))
	return nil
}

// pushData is the content of the push form: what was typed in, if it has to be corrected or repeated. made is
// the ID generated at the first try, if any.
type pushData struct {
	url.Values
	Problem []piece
	Unknown bool // it is unknown whether the job was pushed
	Exists  bool // a job with the ID exists
}

// pushForm serves the empty form, with the topic filled in if given.
func (d *Dashboard) pushForm(p *page) error {
	data := pushData{Values: url.Values{}}
	if topic := p.form.Get("topic"); typable(topic) { // otherwise the browser would change it
		data.Set("topic", topic)
	}
	return p.show("push", data)
}

// push pushes the job and redirects to its page.
func (d *Dashboard) push(p *page) error {
	if d.ReadOnly {
		return errReadOnly
	}
	p.at.Path = "/ui/push"
	form, made := p.form, p.form.Get("made")
	// Browsers send line breaks of a form as CRLF.
	form.Set("body", strings.ReplaceAll(form.Get("body"), "\r\n", "\n"))
	isNew := form.Get("id") == ""
	if isNew {
		form.Set("id", store.NewID()) // generated first, so that a second try pushes the same job
		form.Set("made", form.Get("id"))
	}
	err := d.pushed(p)
	if err == nil || errors.Is(err, client.ErrExists) && form.Get("id") == made { // ErrExists: the first try succeeded
		return p.see(link("ui/job", "id", form.Get("id")), "push", 1)
	}
	found := p.problemOf(p.blame(err))
	p.status = found.Status
	data := pushData{Values: form, Problem: found.Detail, Unknown: unknown(err), Exists: found.Status == http.StatusConflict}
	if data.Exists {
		data.Problem, p.Field = pieces(p.T("push.exists")), "id"
	}
	if !data.Unknown {
		form.Del("made")
		if isNew {
			form.Del("id")
		}
	}
	return p.show("push", data)
}

func (d *Dashboard) pushed(p *page) error {
	if err := p.needs("topic", "body"); err != nil {
		return err
	}
	get := p.form.Get
	policy := client.Refuse()
	if get("replace") != "" {
		policy = client.Replace()
	}
	delay, err := p.duration("delay")
	lease, wrongLease := p.duration("lease")
	attempts, wrongAttempts := p.whole("max_attempts")
	if err = cmp.Or(err, wrongLease, wrongAttempts); err != nil {
		return err
	}
	o := client.JobOptions{Lease: lease, MaxAttempts: max(attempts, 0)}
	_, err = d.client.Push(p.ctx, client.Message{Topic: get("topic"), ID: get("id"), Body: get("body")}, delay, client.IfExists(policy), o)
	return err
}
