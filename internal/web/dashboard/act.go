package dashboard

import (
	"cmp"
	"context"
	"math"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/mix-basic/delayer/internal/duration"
	"github.com/mix-basic/delayer/internal/operator"
)

// target is what an action is done to.
type target struct {
	id    string   // of a job, or of a dead letter
	ids   []string // of dead letters that were selected
	topic string
	dead  operator.DeadFilter // of the topic's dead letters
	most  int                 // how many of the topic's ready jobs
	delay time.Duration
}

// action is what a user can do. It is done by a POST, whose page asks for confirmation first if it can't be
// undone.
type action struct {
	// of is what it is about: a job, a topic or dead letters. That must be given.
	of   string
	asks bool
	// count is how many it would be done to; nil where it is one.
	count func(d *Dashboard, ctx context.Context, t target) (int, error)
	// do does it, and returns to how many, also with an error.
	do func(d *Dashboard, ctx context.Context, t target) (int, error)
}

// actions are all there are, by name.
var actions = map[string]action{
	"remove": {of: "job", asks: true, do: func(d *Dashboard, ctx context.Context, t target) (int, error) {
		return one(d.client.Remove(ctx, t.id))
	}},
	"reschedule": {of: "job", do: func(d *Dashboard, ctx context.Context, t target) (int, error) {
		return oneUnless(d.client.Reschedule(ctx, t.id, t.delay))
	}},
	"deliver": {of: "job", do: func(d *Dashboard, ctx context.Context, t target) (int, error) {
		return oneUnless(d.client.Reschedule(ctx, t.id, 0))
	}},
	"requeue": {of: "job", do: func(d *Dashboard, ctx context.Context, t target) (int, error) {
		return oneUnless(d.client.Requeue(ctx, t.id))
	}},
	"drop": {of: "letter", asks: true, do: func(d *Dashboard, ctx context.Context, t target) (int, error) {
		return d.client.DropDead(ctx, t.topic, t.id)
	}},
	"purge": {of: "topic", asks: true, count: (*Dashboard).readyOf, do: func(d *Dashboard, ctx context.Context, t target) (int, error) {
		return d.operator.Purge(ctx, t.topic, t.most)
	}},
	"requeue_dead": {of: "dead", asks: true, count: (*Dashboard).deadOf, do: func(d *Dashboard, ctx context.Context, t target) (int, error) {
		return d.operator.RequeueDead(ctx, t.dead)
	}},
	"drop_dead": {of: "dead", asks: true, count: (*Dashboard).deadOf, do: func(d *Dashboard, ctx context.Context, t target) (int, error) {
		return d.operator.DropDead(ctx, t.dead)
	}},
	"requeue_selected": {of: "selected", asks: true, count: (*Dashboard).countSelected, do: (*Dashboard).requeueSelected},
	"drop_selected": {of: "selected", asks: true, count: (*Dashboard).countSelected, do: func(d *Dashboard, ctx context.Context, t target) (int, error) {
		return d.client.DropDead(ctx, t.topic, t.ids...)
	}},
}

func one(done bool, err error) (int, error) {
	if done {
		return 1, err
	}
	return 0, err
}

func oneUnless(err error) (int, error) { return one(err == nil, err) }

// readyOf is how many ready jobs the topic has.
func (d *Dashboard) readyOf(ctx context.Context, t target) (int, error) {
	counts, err := d.countsOf(ctx, t.topic)
	return counts.Ready, err
}

// deadOf is how many dead letters are meant. Those of a group have to be looked for, all are counted.
func (d *Dashboard) deadOf(ctx context.Context, t target) (int, error) {
	if !t.dead.Whole {
		if counts, err := d.countsOf(ctx, t.topic); err != nil || counts.Dead > 0 {
			return counts.Dead, err
		}
	}
	return d.operator.CountDead(ctx, t.dead)
}

func (d *Dashboard) countsOf(ctx context.Context, topic string) (operator.TopicCounts, error) {
	counts, err := d.operator.CountsOf(ctx, topic)
	if err != nil {
		return operator.TopicCounts{}, err
	}
	return counts.Topics[0], nil
}

// action is the one that the request names, and what it is done to.
func (p *page) action() (string, action, target, error) {
	name := p.r.PathValue("action")
	found, ok := actions[name]
	if !ok {
		return "", action{}, target{}, errNoPage
	}
	if p.o.ReadOnly {
		return "", action{}, target{}, errReadOnly
	}
	given, err := p.givens("id", "topic", "reason", "error")
	if err != nil {
		return "", action{}, target{}, err
	}
	t := target{id: given[0], topic: given[1], dead: operator.DeadFilter{Topic: given[1]}, most: math.MaxInt}
	if p.form.Has("most") {
		t.most = countOf(p.form.Get("most"))
	}
	if p.form.Get("group") != "" || given[2] != "" || given[3] != "" { // of the group that has none the first alone tells
		t.dead.Reason, t.dead.Error, t.dead.Whole = given[2], given[3], true
	}
	if before, err := strconv.ParseInt(p.form.Get("before"), 10, 64); err == nil {
		t.dead.Before = time.UnixMicro(before)
	}
	if t.ids, err = p.selected(); err != nil {
		return "", action{}, target{}, err
	}
	switch {
	case t.id == "" && (found.of == "job" || found.of == "letter"):
		err = &wrong{"wrong.missing", "id"}
	case t.topic == "" && found.of != "job":
		err = &wrong{"wrong.missing", "topic"}
	case name == "reschedule":
		if t.delay, err = duration.Parse(strings.TrimSpace(p.form.Get("delay"))); err != nil {
			err = &wrong{"wrong.delay", p.form.Get("delay")}
		}
	}
	return name, found, t, err
}

// confirmData is what the page shows that asks for confirmation.
type confirmData struct {
	Action    string
	Counted   bool
	Count     int // operator.Unknown if it can't be told
	Most      int // to how many it is done at most
	ID        string
	IDs       []string
	Dead      operator.DeadFilter
	Topic     string
	Dangerous bool
	Back      string
}

// confirm asks whether it is really to be done. It does nothing.
func (d *Dashboard) confirm(p *page) error {
	name, found, t, err := p.action()
	if err != nil {
		return err
	}
	if !found.asks || found.of == "selected" { // which a link can't do
		return errNoPage
	}
	if found.of == "dead" {
		// What dies from now on, while the question stands, was not asked about.
		counts, err := d.operator.CountsOf(p.ctx)
		if err != nil {
			return err
		}
		t.dead.Before = counts.Time
	}
	n := 0
	if found.count != nil {
		if n, err = found.count(d, p.ctx, t); err != nil {
			return err
		}
		t.most = n
	}
	return p.ask(name, found, t, n)
}

// ask shows the question, with how many there are.
func (p *page) ask(name string, found action, t target, n int) error {
	return p.show("confirm", "", pieces(p.text("do."+name)), confirmData{
		Action: name, ID: t.id, IDs: t.ids, Topic: t.topic, Dead: t.dead, Counted: found.count != nil, Count: n, Most: t.most,
		Dangerous: !strings.HasPrefix(name, "requeue"), Back: back(found, t),
	})
}

// act does it, and leads to a page that says what was done.
func (d *Dashboard) act(p *page) error {
	name, found, t, err := p.action()
	if t.id == "" && t.topic == "" {
		return cmp.Or(err, errNoPage)
	}
	if found.of == "selected" && err == nil && (len(t.ids) == 0 || p.form.Get("sure") == "") {
		p.instead, _ = url.Parse(back(found, t))
		return d.askSelected(p, name, found, t)
	}
	done := 0
	if err == nil {
		done, err = found.do(d, p.ctx, t)
	}
	if err != nil {
		return d.failed(p, name, found, t, done, err)
	}
	if done == 0 {
		name = "nothing"
	}
	return p.see(back(found, t), name, done)
}

// failed shows where the action came from once more, with what it has met, and what was typed in.
func (d *Dashboard) failed(p *page, name string, found action, t target, done int, err error) error {
	partly := ""
	if done > 0 {
		partly = p.done(name, done)
	}
	p.sampler.changed.Store(true)
	p.instead, _ = url.Parse(back(found, t))
	p.meet(err, partly)
	if !found.asks {
		return d.showJob(p, t.id)
	}
	n := operator.Unknown
	if found.count != nil {
		if left, err := found.count(d, p.ctx, t); err == nil {
			n = left
		}
	}
	return p.ask(name, found, t, n)
}

// back is the page that an action belongs to.
func back(of action, t target) string {
	switch of.of {
	case "job":
		return link("/ui/job", "id", t.id)
	case "topic":
		return link("/ui/topic", "topic", t.topic)
	default:
		return link("/ui/dead/topic", "topic", t.topic)
	}
}

// countOf is a number that a link carries.
func countOf(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return 0
	}
	return n
}
