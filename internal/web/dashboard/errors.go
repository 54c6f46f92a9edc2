package dashboard

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"strings"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/operator"
	"github.com/mix-basic/delayer/internal/store"
	"github.com/mix-basic/delayer/internal/web"
)

var (
	errNoPage   = errors.New("no such page")
	errReadOnly = errors.New("read_only is set")
)

// wrong is a mistake in what was asked: a text, and what it is about.
type wrong struct{ key, about string }

func (w *wrong) Error() string { return english.text(w.key, w.about) }

// problem is an error as a page shows it.
type problem struct {
	Status int
	Key    string // of its text, which <key>.help explains
	Detail []piece
}

// problemOf tells what kind of error it is.
func problemOf(err error, l language) problem {
	detail := pieces(cut(strings.ToValidUTF8(err.Error(), "\ufffd"), 2000))
	mistake, of := (*wrong)(nil), func(status int, key string) problem { return problem{status, key, detail} }
	switch {
	case errors.As(err, &mistake):
		return problem{http.StatusBadRequest, "problem.wrong", pieces(l.text(mistake.key, mistake.about))}
	case errors.Is(err, errNoPage):
		return problem{http.StatusNotFound, "problem.page", nil}
	case errors.Is(err, errReadOnly):
		return problem{http.StatusForbidden, "problem.read_only", nil}
	case errors.Is(err, client.ErrNotFound):
		return problem{http.StatusNotFound, "problem.not_found", nil}
	case errors.Is(err, client.ErrExists), errors.Is(err, operator.ErrKept):
		return of(http.StatusConflict, "problem.exists")
	case errors.Is(err, client.ErrInvalid), errors.Is(err, operator.ErrCursor):
		return of(http.StatusBadRequest, "problem.wrong")
	case errors.Is(err, web.ErrTooLarge):
		return problem{http.StatusRequestEntityTooLarge, "problem.large", nil}
	}
	switch store.KindOf(err) {
	case store.WrongType:
		return of(http.StatusOK, "problem.unreadable")
	case store.NotNow, store.OutOfMemory:
		return of(http.StatusServiceUnavailable, "problem.busy")
	case store.Denied, store.OtherAnswer:
		return of(http.StatusBadGateway, "problem.refused")
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) {
		return of(http.StatusServiceUnavailable, "problem.slow")
	}
	return of(http.StatusServiceUnavailable, "problem.down")
}

// unreadable reports whether a key is of another type than it should be.
func unreadable(err error) bool { return store.KindOf(err) == store.WrongType }

// unknown reports whether nobody knows if a change was made: Redis's answer to it did not come. When
// there was no connection, nothing was.
func unknown(err error) bool {
	switch problemOf(err, english).Key {
	case "problem.slow", "problem.down":
		var network *net.OpError
		return !errors.As(err, &network) || network.Op != "dial"
	}
	return false
}

// fail shows the error instead of the page.
func (p *page) fail(err error) { p.failWith(problemOf(err, p.language)) }

func (p *page) failWith(found problem) {
	p.status = found.Status
	title := p.text(found.Key)
	p.show("problem", "", pieces(title), struct {
		problem
		Help  string
		Again bool
	}{found, p.text(found.Key + ".help"), found.Status >= 500 && p.r.Method == http.MethodGet})
}

// trouble is what an action has met, as it is shown beside its form.
type trouble struct {
	Status      int
	Title, Help string
	Detail      []piece
	Partly      string // what was done before; empty if nothing was
}

// meet has the next page show the error of an action.
func (p *page) meet(err error, partly string) {
	found := problemOf(err, p.language)
	t := trouble{Status: found.Status, Title: p.text(found.Key), Help: p.text(found.Key + ".help"), Detail: found.Detail, Partly: partly}
	switch {
	case unknown(err):
		t.Title, t.Help = p.text("problem.unknown"), p.text("problem.unknown.help")
	case found.Key == "problem.down":
		t.Help = p.text("problem.undone")
	}
	p.status, p.Trouble = found.Status, &t
}

// refuse answers a request that the front does not let in.
func (d *Dashboard) refuse(w http.ResponseWriter, r *http.Request, status int, why string) {
	keys := map[int]string{http.StatusUnauthorized: "problem.unauthorized", http.StatusForbidden: "problem.forbidden"}
	key := keys[status]
	if key == "" {
		key = "problem.host"
	}
	p := d.newPage(w, r)
	p.failWith(problem{status, key, pieces(why)})
}
