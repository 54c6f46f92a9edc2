package dashboard

import (
	"context"
	"errors"
	"html/template"
	"net"
	"net/http"
	"os"
	"strings"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/inspect"
	"github.com/mix-basic/delayer/internal/store"
	"github.com/mix-basic/delayer/internal/web"
)

var (
	errNoPage   = errors.New("no such page")
	errReadOnly = errors.New("read_only is set")
)

// wrong is a mistake in a request: the key of a text, its argument, and the form field to correct, if any.
type wrong struct{ key, about, field string }

func (w *wrong) Error() string { return w.in(english) }

func (w *wrong) in(l language) string { return l.T(w.key, w.about) }

// Is makes errors.Is(w, client.ErrInvalid) true.
func (w *wrong) Is(target error) bool { return target == client.ErrInvalid }

// blame marks the form field that the error is about and returns the error to show.
func (p *page) blame(err error) error {
	var mistake *wrong
	if !errors.As(err, &mistake) {
		for e := err; e != nil && mistake == nil; e = errors.Unwrap(e) {
			mistake = p.wrongOf(e.Error())
		}
	}
	if mistake == nil {
		return err
	}
	p.Field = mistake.field
	return mistake
}

// wrongOf converts the client's error about a field of the form; nil for other errors.
func (p *page) wrongOf(text string) *wrong {
	rest, is := strings.CutPrefix(text, client.ErrInvalid.Error()+" ")
	name, _, _ := strings.Cut(rest, ":")
	field := strings.ReplaceAll(name, " ", "_")
	if field == "time" { // of a pause
		field = "for"
	}
	if _, known := texts["wrong."+field]; !is || !known {
		return nil
	}
	return &wrong{"wrong." + field, cut(p.form.Get(field), short), field}
}

// Invalid returns the attributes of a form field that has to be corrected: it gets the focus and refers to
// the message.
func (p *page) Invalid(field string) template.HTMLAttr {
	if field != p.Field {
		return ""
	}
	return `aria-invalid="true" aria-describedby="problem" autofocus`
}

// problem is an error as shown on a page.
type problem struct {
	Status      int
	Title, Help string
	Detail      []piece
	Partly      string // what an action did before the error; "" if nothing
}

// problem returns the problem with that key; <key>.help explains it.
func (l language) problem(status int, key, detail string) problem {
	return problem{Status: status, Title: l.T(key), Help: l.T(key + ".help"), Detail: pieces(detail)}
}

// problemOf converts an error for display.
func (l language) problemOf(err error) problem {
	status, key := kindOf(err)
	detail := cut(strings.ToValidUTF8(err.Error(), "\ufffd"), 2000)
	var mistake *wrong
	if errors.As(err, &mistake) {
		detail = mistake.in(l)
	}
	switch status {
	case http.StatusForbidden, http.StatusNotFound, http.StatusRequestEntityTooLarge: // their titles say everything
		detail = ""
	}
	return l.problem(status, key, detail)
}

// kinds are the errors that have a problem of their own; see kindOf for Redis's.
var kinds = []struct {
	err    error
	status int
	key    string
}{
	{errNoPage, http.StatusNotFound, "problem.page"},
	{errReadOnly, http.StatusForbidden, "problem.read_only"},
	{client.ErrNotFound, http.StatusNotFound, "problem.not_found"},
	{client.ErrExists, http.StatusConflict, "problem.exists"},
	{inspect.ErrKept, http.StatusConflict, "problem.exists"},
	{client.ErrInvalid, http.StatusBadRequest, "problem.wrong"},
	{inspect.ErrCursor, http.StatusBadRequest, "problem.wrong"},
	{web.ErrTooLarge, http.StatusRequestEntityTooLarge, "problem.large"},
}

func kindOf(err error) (status int, key string) {
	for _, k := range kinds {
		if errors.Is(err, k.err) {
			return k.status, k.key
		}
	}
	switch store.KindOf(err) {
	case store.WrongType:
		return http.StatusOK, "problem.unreadable"
	case store.NotNow, store.OutOfMemory:
		return http.StatusServiceUnavailable, "problem.busy"
	case store.Denied, store.OtherAnswer:
		return http.StatusBadGateway, "problem.refused"
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) {
		return http.StatusServiceUnavailable, "problem.slow"
	}
	return http.StatusServiceUnavailable, "problem.down"
}

// unreadable reports whether a key has the wrong type.
func unreadable(err error) bool { return store.KindOf(err) == store.WrongType }

// unknown reports whether a change may have happened without its reply arriving. Without a connection nothing
// happened.
func unknown(err error) bool {
	var network *net.OpError
	if errors.As(err, &network) && network.Op == "dial" {
		return false
	}
	_, key := kindOf(err)
	return key == "problem.slow" || key == "problem.down"
}

func (p *page) fail(found problem) {
	p.status = found.Status
	p.show("problem", found)
}

// Again reports whether the problem's page reloads itself.
func (p *page) Again() bool { return p.status >= 500 && p.r.Method == http.MethodGet }

// meet makes the next page show an action's error and what it did before that.
func (p *page) meet(err error, partly string) {
	err = p.blame(err)
	found := p.problemOf(err)
	switch _, key := kindOf(err); {
	case unknown(err):
		found.Title, found.Help = p.T("problem.unknown"), p.T("problem.unknown.help")
	case key == "problem.down":
		found.Help = p.T("problem.undone")
	}
	found.Partly = partly
	p.status, p.Trouble = found.Status, &found
}

// refuse answers a request that is not admitted.
func (d *Dashboard) refuse(w http.ResponseWriter, r *http.Request, status int, why string) {
	key := "problem.host"
	switch status {
	case http.StatusUnauthorized:
		key = "problem.unauthorized"
	case http.StatusForbidden:
		key = "problem.forbidden"
	}
	p := d.newPage(w, r)
	p.fail(p.problem(status, key, why))
}
