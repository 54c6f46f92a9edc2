package dashboard

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/duration"
	"github.com/mix-basic/delayer/internal/inspect"
)

// subject is what actions are about.
type subject struct {
	page  string                          // to which they belong
	needs []string                        // what must be given; the last is what the page takes
	count func(a *act) (n int, err error) // nil where it is one
}

var (
	oneJob      = &subject{page: "/ui/job", needs: []string{"id"}}
	readyJobs   = &subject{page: "/ui/topic", needs: []string{"topic"}, count: (*act).ready}
	oneSchedule = &subject{page: "/ui/schedules", needs: []string{"schedule"}}
	wholeTopic  = &subject{page: "/ui/topic", needs: []string{"topic"}}
	oneLetter   = &subject{page: "/ui/dead/topic", needs: []string{"id", "topic"}}
	deadLetters = &subject{page: "/ui/dead/topic", needs: []string{"topic"}, count: (*act).letters}
	ticked      = &subject{page: "/ui/dead/topic", needs: []string{"topic"}, count: func(a *act) (int, error) { return len(a.IDs), nil }}
)

// action is what a user can do. It is done by a POST, whose page asks for confirmation first if it can't be
// undone.
type action struct {
	of   *subject
	asks bool
	// do does it, and returns to how many, also with an error.
	do func(a *act) (int, error)
}

// actions are all there are, by name.
var actions = map[string]action{
	"remove":           {oneJob, true, func(a *act) (int, error) { return one(a.client.Remove(a.ctx, a.ID)) }},
	"reschedule":       {oneJob, false, (*act).reschedule},
	"deliver":          {oneJob, false, (*act).reschedule},
	"requeue":          {oneJob, false, func(a *act) (int, error) { return oneUnless(a.client.Requeue(a.ctx, a.ID)) }},
	"drop":             {oneLetter, true, func(a *act) (int, error) { return a.client.DropDead(a.ctx, a.Topic, a.ID) }},
	"purge":            {readyJobs, true, func(a *act) (int, error) { return a.inspector.Purge(a.ctx, a.Topic, a.Most) }},
	"pause":            {wholeTopic, false, (*act).pause},
	"limit":            {wholeTopic, false, (*act).limit},
	"end_limit":        {wholeTopic, false, func(a *act) (int, error) { return oneUnless(a.client.SetLimit(a.ctx, a.Topic, client.Limit{})) }},
	"resume":           {wholeTopic, false, func(a *act) (int, error) { return one(a.client.Resume(a.ctx, a.Topic)) }},
	"requeue_dead":     {deadLetters, true, func(a *act) (int, error) { return a.inspector.RequeueDead(a.ctx, a.Dead) }},
	"drop_dead":        {deadLetters, true, func(a *act) (int, error) { return a.inspector.DropDead(a.ctx, a.Dead) }},
	"requeue_selected": {ticked, true, (*act).requeueSelected},
	"run_now":          {oneSchedule, false, (*act).runNow},
	"pause_schedule":   {oneSchedule, false, func(a *act) (int, error) { return a.onSchedule(a.client.PauseSchedule(a.ctx, a.Schedule)) }},
	"resume_schedule":  {oneSchedule, false, func(a *act) (int, error) { return a.onSchedule(a.client.ResumeSchedule(a.ctx, a.Schedule)) }},
	"unschedule":       {oneSchedule, true, func(a *act) (int, error) { return one(a.client.Unschedule(a.ctx, a.Schedule)) }},
	"drop_selected":    {ticked, true, func(a *act) (int, error) { return a.client.DropDead(a.ctx, a.Topic, a.IDs...) }},
}

// maxSelected is how many dead letters may be selected, some pages of them.
const maxSelected = 1000

// act is an action that a request asks for, and what it is done to.
type act struct {
	*page
	action
	Action   string   // its name
	ID       string   // of a job, or of a dead letter
	IDs      []string // of dead letters that were selected
	Topic    string
	Schedule string             // its name
	Dead     inspect.DeadFilter // of the topic's dead letters
	Most     int                // how many of the topic's ready jobs
	Count    int                // how many there are; inspect.Unknown if it can't be told
	delay    time.Duration
}

// Counted reports whether there is a Count.
func (a *act) Counted() bool { return a.of.count != nil }

// Dangerous reports whether something will be gone.
func (a *act) Dangerous() bool { return !strings.HasPrefix(a.Action, "requeue") }

// Back is the page that the action belongs to.
func (a *act) Back() string {
	key := a.of.needs[len(a.of.needs)-1]
	return link(a.of.page, key, a.form.Get(key))
}

func one(done bool, err error) (int, error) {
	if done {
		return 1, err
	}
	return 0, err
}

func oneUnless(err error) (int, error) { return one(err == nil, err) }

func (a *act) reschedule() (int, error) {
	return oneUnless(a.client.Reschedule(a.ctx, a.ID, a.delay))
}

func (a *act) pause() (int, error) {
	return oneUnless(a.client.Pause(a.ctx, a.Topic, client.PauseOptions{For: a.delay, Note: strings.TrimSpace(a.form.Get("note"))}))
}

// requeueSelected goes on where a dead letter can't be requeued, as a job of its ID exists.
func (a *act) requeueSelected() (done int, err error) {
	kept, why := 0, error(nil)
	for _, id := range a.IDs {
		switch err := a.client.Requeue(a.ctx, id); {
		case err == nil:
			done++
		case errors.Is(err, client.ErrExists):
			kept++
			why = cmp.Or(why, err)
		case !errors.Is(err, client.ErrNotFound): // else somebody was faster
			return done, err
		}
	}
	if kept > 0 {
		err = fmt.Errorf("%d %w, as %w", kept, inspect.ErrKept, why)
	}
	return done, err
}

// counts are those of the topic, in all partitions.
func (a *act) counts() (inspect.Counts, error) {
	counts, err := a.inspector.CountsOf(a.ctx, a.Topic)
	return counts, cmp.Or(err, counts.Broken())
}

// ready is how many ready jobs the topic has.
func (a *act) ready() (int, error) {
	counts, err := a.counts()
	if err != nil {
		return 0, err
	}
	return counts.Topics[0].Ready, nil
}

// letters is how many dead letters are meant. Those of a group have to be looked for, all are counted.
func (a *act) letters() (int, error) {
	counts, err := a.counts()
	if err != nil {
		return 0, err
	}
	if a.Dead.Before.IsZero() {
		a.Dead.Before = counts.Time // what dies from now on, while the question stands, was not asked about
	}
	if all := counts.Topics[0].Dead; all > 0 && !a.Dead.Whole {
		return all, nil
	}
	return a.inspector.CountDead(a.ctx, a.Dead)
}

// asked is what the request asks for; nil if there is no page beside which an error could be shown.
func (p *page) asked() (*act, error) {
	name := p.r.PathValue("action")
	found, ok := actions[name]
	if !ok {
		return nil, errNoPage
	}
	if p.ReadOnly {
		return nil, errReadOnly
	}
	get := p.form.Get
	a := &act{page: p, action: found, Action: name, ID: get("id"), Topic: get("topic"), Schedule: get("schedule"), Most: math.MaxInt, Count: inspect.Unknown}
	a.Dead.Topic = a.Topic
	if p.form.Has("most") {
		a.Most = countOf(get("most"))
	}
	if get("group") != "" || get("reason") != "" || get("error") != "" { // of the group that has none the first alone tells
		a.Dead.Reason, a.Dead.Error, a.Dead.Whole = get("reason"), get("error"), true
	}
	if before, err := strconv.ParseInt(get("before"), 10, 64); err == nil {
		a.Dead.Before = time.UnixMicro(before)
	}
	err := p.needs(found.of.needs...)
	if ids := p.form["selected"]; len(ids) <= maxSelected {
		a.IDs = ids
	} else {
		err = &wrong{"wrong.many", number(maxSelected), ""}
	}
	if err == nil && name == "reschedule" {
		a.delay, err = durationOf("delay", get("delay"))
	}
	if err == nil && name == "pause" && strings.TrimSpace(get("for")) != "" { // else it has no end
		if a.delay, err = durationOf("for", get("for")); err == nil && a.delay <= 0 { // which must not be taken for no end
			err = &wrong{"wrong.for", get("for"), "for"}
		}
	}
	if a.ID == "" && a.Topic == "" && a.Schedule == "" {
		return nil, err
	}
	return a, err
}

// durationOf is what was typed into the field of that name.
func durationOf(name, text string) (time.Duration, error) {
	d, err := duration.Parse(strings.TrimSpace(text))
	if err != nil {
		return 0, &wrong{"wrong." + name, text, name}
	}
	return d, nil
}

// confirm asks whether it is really to be done. It does nothing.
func (d *Dashboard) confirm(p *page) error {
	a, err := p.asked()
	if err != nil {
		return err
	}
	if !a.asks || a.of == ticked { // which a link can't do
		return errNoPage
	}
	if a.Counted() {
		if a.Count, err = a.of.count(a); err != nil {
			return err
		}
		a.Most = a.Count
	}
	return p.show("confirm", a)
}

// act does it, and leads to a page that says what was done.
func (d *Dashboard) act(p *page) error {
	a, err := p.asked()
	if a == nil {
		return err
	}
	p.at, _ = url.Parse(a.Back())
	done := 0
	switch {
	case err != nil:
	case a.of == ticked && len(a.IDs) == 0: // the page on which to tick is shown again
		p.meet(&wrong{"wrong.selected", visible(a.Topic), ""}, "")
		return d.deadTopic(p)
	case a.of == ticked && p.form.Get("sure") == "":
		a.Count = len(a.IDs)
		return p.show("confirm", a)
	default:
		done, err = a.do(a)
	}
	if err != nil {
		return a.failed(done, err)
	}
	name := a.Action
	if done == 0 {
		name = "nothing"
	}
	return p.see(a.Back(), name, done)
}

// failed shows where the action came from once more, with what it has met, and what was typed in.
func (a *act) failed(done int, err error) error {
	partly := ""
	if done > 0 {
		partly = a.done(a.Action, done)
	}
	a.sampler.changed.Store(true)
	a.meet(err, partly)
	switch {
	case !a.asks && a.of == oneSchedule:
		return a.schedules(a.page)
	case a.of == wholeTopic:
		return a.topic(a.page)
	case !a.asks:
		return a.job(a.page)
	}
	if a.Counted() {
		if left, err := a.of.count(a); err == nil {
			a.Count = left
		}
	}
	return a.show("confirm", a)
}

// countOf is a number that a link carries.
func countOf(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return 0
	}
	return n
}
