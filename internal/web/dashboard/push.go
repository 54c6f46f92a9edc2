package dashboard

import (
	"cmp"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/store"
)

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
