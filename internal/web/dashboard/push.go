package dashboard

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/duration"
)

// pushData is what the push form shows: what was typed in, if it has to be typed in again.
type pushData struct {
	Topic, ID, Delay, Body, TTR, MaxAttempts string
	Replace                                  bool
	Problem                                  []piece
	Unknown                                  bool   // whether it is not known if the job was pushed
	Made                                     string // the ID that was made for the form's first try; empty if none was
	Exists                                   string // the ID of the job that is in the way
}

// pushForm is the empty form, for the topic if one is given.
func (d *Dashboard) pushForm(p *page) error {
	topic, err := p.given("topic")
	if err != nil {
		return err
	}
	if !typable(topic) { // nor would the browser send it as it is
		topic = ""
	}
	return p.show("push", "push", pieces(p.text("nav.push")), pushData{Topic: topic})
}

// push pushes the job and leads to its page.
func (d *Dashboard) push(p *page) error {
	if d.o.ReadOnly {
		return errReadOnly
	}
	p.instead.Path = "/ui/push"
	data := pushData{Replace: p.form.Get("replace") != ""}
	for name, field := range map[string]*string{"topic": &data.Topic, "id": &data.ID, "delay": &data.Delay, "body": &data.Body, "ttr": &data.TTR, "max_attempts": &data.MaxAttempts} {
		*field = p.form.Get(name)
	}
	// A browser sends the lines of a form with CRLF, whatever was typed in.
	data.Body = strings.ReplaceAll(data.Body, "\r\n", "\n")
	if data.ID == "" {
		data.ID = newID() // before the push: so a second try pushes the same
		data.Made = data.ID
	}
	err := d.pushed(p, data)
	if err == nil || errors.Is(err, client.ErrExists) && data.ID == p.form.Get("made") { // then by the first try
		return p.see(link("/ui/job", "id", data.ID), "push", 1)
	}
	found := problemOf(err, p.language)
	p.status = found.Status
	data.Problem, data.Unknown = found.Detail, unknown(err)
	switch {
	case found.Status == http.StatusConflict:
		data.Problem, data.Exists = pieces(p.text("push.exists")), data.ID
	case data.Unknown:
		data.Made = cmp.Or(data.Made, p.form.Get("made"))
	case data.Made != "":
		data.ID, data.Made = "", ""
	}
	return p.show("push", "push", pieces(p.text("nav.push")), data)
}

// newID is a random ID of the form that clients give them.
func newID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails (crypto/rand)
	return hex.EncodeToString(b[:])
}

// pushed pushes what was typed in.
func (d *Dashboard) pushed(p *page, data pushData) error {
	opts := []client.PushOption{client.IfExists(client.Refuse)}
	if data.Replace {
		opts = []client.PushOption{client.IfExists(client.Replace)}
	}
	for name, value := range map[string]string{"topic": data.Topic, "body": data.Body} {
		if value == "" {
			return &wrong{"wrong.missing", name}
		}
	}
	if data.Delay == "" {
		data.Delay = "0"
	}
	delay, err := duration.Parse(strings.TrimSpace(data.Delay))
	if err != nil {
		return &wrong{"wrong.delay", data.Delay}
	}
	if data.TTR != "" {
		ttr, err := duration.Parse(strings.TrimSpace(data.TTR))
		if err != nil {
			return &wrong{"wrong.ttr", data.TTR}
		}
		opts = append(opts, client.TTR(ttr))
	}
	if data.MaxAttempts != "" {
		n, err := strconv.Atoi(strings.TrimSpace(data.MaxAttempts))
		if err != nil {
			return &wrong{"wrong.max_attempts", data.MaxAttempts}
		}
		opts = append(opts, client.MaxAttempts(n))
	}
	_, err = d.client.Push(p.ctx, client.Message{Topic: data.Topic, ID: data.ID, Body: data.Body}, delay, opts...)
	return err
}
