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
	"github.com/mix-basic/delayer/internal/inspect"
	"github.com/mix-basic/delayer/internal/store"
)

// subject is what an action applies to.
type subject struct {
	page  string                          // path of the page that the action belongs to
	show  func(*Dashboard, *page) error   // shows that page
	needs []string                        // required values; the page takes the last one
	count func(a *act) (n int, err error) // nil for single subjects
}

var (
	oneJob      = &subject{"ui/job", (*Dashboard).job, []string{"id"}, nil}
	readyJobs   = &subject{"ui/topic", (*Dashboard).topic, []string{"topic"}, (*act).ready}
	oneSchedule = &subject{"ui/schedules", (*Dashboard).schedules, []string{"schedule"}, nil}
	wholeTopic  = &subject{"ui/topic", (*Dashboard).topic, []string{"topic"}, nil}
	oneLetter   = &subject{"ui/dead/topic", (*Dashboard).deadTopic, []string{"id", "topic"}, nil}
	deadLetters = &subject{"ui/dead/topic", (*Dashboard).deadTopic, []string{"topic"}, (*act).letters}
	ticked      = &subject{"ui/dead/topic", (*Dashboard).deadTopic, []string{"topic"}, func(a *act) (int, error) { return len(a.IDs), nil }}
)

// action is something a user can do. It is done by a POST; if it cannot be undone, a page asks for
// confirmation first.
type action struct {
	of   *subject
	asks bool
	// do performs it and returns how many were affected, even on an error.
	do func(a *act) (int, error)
}

var actions = map[string]action{
	"remove":           {oneJob, true, (*act).remove},
	"reschedule":       {oneJob, false, (*act).reschedule},
	"deliver":          {oneJob, false, func(a *act) (int, error) { return oneUnless(a.client.Reschedule(a.ctx, a.ID, 0)) }},
	"requeue":          {oneJob, false, func(a *act) (int, error) { return oneUnless(a.client.Requeue(a.ctx, a.ID)) }},
	"drop":             {oneLetter, true, func(a *act) (int, error) { return a.inspector.DropIDs(a.ctx, a.Topic, a.ID) }},
	"purge":            {readyJobs, true, func(a *act) (int, error) { return a.inspector.Purge(a.ctx, a.Topic, a.Most) }},
	"pause":            {wholeTopic, false, (*act).pause},
	"limit":            {wholeTopic, false, (*act).limit},
	"end_limit":        {wholeTopic, false, func(a *act) (int, error) { return oneUnless(a.client.SetLimit(a.ctx, a.Topic, client.Limit{})) }},
	"resume":           {wholeTopic, false, func(a *act) (int, error) { return one(a.client.Resume(a.ctx, a.Topic)) }},
	"requeue_dead":     {deadLetters, true, func(a *act) (int, error) { return a.inspector.RequeueDead(a.ctx, a.Dead) }},
	"drop_dead":        {deadLetters, true, func(a *act) (int, error) { return a.inspector.DropDead(a.ctx, a.Dead) }},
	"requeue_selected": {ticked, true, (*act).requeueSelected},
	"run_now":          {oneSchedule, false, (*act).runNow},
	"pause_schedule":   {oneSchedule, false, func(a *act) (int, error) { return a.onSchedule(a.client.Schedules().Pause(a.ctx, a.Schedule)) }},
	"resume_schedule":  {oneSchedule, false, func(a *act) (int, error) { return a.onSchedule(a.client.Schedules().Resume(a.ctx, a.Schedule)) }},
	"unschedule":       {oneSchedule, true, func(a *act) (int, error) { return one(a.client.Schedules().Remove(a.ctx, a.Schedule)) }},
	"drop_selected":    {ticked, true, func(a *act) (int, error) { return a.inspector.DropIDs(a.ctx, a.Topic, a.IDs...) }},
}

// maxSelected is how many dead letters can be selected: several pages of them.
const maxSelected = 1000

// act is a requested action and its subject.
type act struct {
	*page
	action
	Action   string   // name of the action
	ID       string   // ID of a job or dead letter
	IDs      []string // IDs of the selected dead letters
	Topic    string
	Schedule string             // name of the schedule
	Dead     inspect.DeadFilter // filter for the topic's dead letters
	Most     int                // maximum number of ready jobs to purge
	Count    int                // number of subjects; inspect.Unknown if it can't be read
}

func (a *act) Counted() bool { return a.of.count != nil }

// Dangerous reports whether the action deletes something.
func (a *act) Dangerous() bool { return !strings.HasPrefix(a.Action, "requeue") }

// Back returns the page that the action belongs to.
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

func (a *act) remove() (int, error) {
	was, err := a.client.Remove(a.ctx, a.ID)
	return one(was != "", err)
}

func (a *act) reschedule() (int, error) {
	delay, err := a.duration("delay")
	if a.typed("delay") == "" { // must not mean now
		err = &wrong{"wrong.delay", "", "delay"}
	}
	if err != nil {
		return 0, err
	}
	return oneUnless(a.client.Reschedule(a.ctx, a.ID, delay))
}

func (a *act) pause() (int, error) {
	length, err := a.duration("for")
	if a.typed("for") != "" && err == nil && length <= 0 { // must not mean without end
		err = &wrong{"wrong.for", a.typed("for"), "for"}
	}
	if err != nil {
		return 0, err
	}
	return oneUnless(a.client.Pause(a.ctx, a.Topic, client.PauseOptions{For: length, Note: a.typed("note")}))
}

// requeueSelected continues after dead letters that cannot be requeued because a job with their ID exists.
func (a *act) requeueSelected() (done int, err error) {
	kept, why := 0, error(nil)
	done, err = a.inspector.RequeueIDs(a.ctx, a.Topic, a.IDs, false, func(id string, err error) {
		if errors.Is(err, client.ErrExists) { // else it is requeued, or somebody else was faster
			kept++
			why = cmp.Or(why, fmt.Errorf("%s: %w", store.Quote(id), err))
		}
	})
	if err == nil && kept > 0 {
		err = fmt.Errorf("%d %w, as %w", kept, inspect.ErrKept, why)
	}
	return done, err
}

// counts returns the topic's counts over all partitions, and Redis's time.
func (a *act) counts() (inspect.TopicCounts, time.Time, error) {
	counts, err := a.inspector.CountsOf(a.ctx, a.Topic)
	if err = cmp.Or(err, counts.Broken()); err != nil {
		return inspect.TopicCounts{}, time.Time{}, err
	}
	return counts.Topics[0], counts.Time, nil
}

func (a *act) ready() (int, error) {
	counts, _, err := a.counts()
	return counts.Ready, err
}

// letters returns the number of selected dead letters. A group has to be searched; all of a topic are
// counted.
func (a *act) letters() (int, error) {
	counts, now, err := a.counts()
	if err != nil {
		return 0, err
	}
	if a.Dead.Before.IsZero() {
		a.Dead.Before = now // excludes letters that die while the confirmation is open
	}
	if counts.Dead > 0 && !a.Dead.Whole {
		return counts.Dead, nil
	}
	return a.inspector.CountDead(a.ctx, a.Dead)
}

// asked parses the request; nil if there is no page that could show an error.
func (p *page) asked() (*act, error) {
	name := p.r.PathValue("action")
	found, ok := actions[name]
	switch {
	case !ok:
		return nil, errNoPage
	case p.ReadOnly:
		return nil, errReadOnly
	}
	get := p.form.Get
	a := &act{page: p, action: found, Action: name, ID: get("id"), IDs: p.form["selected"], Topic: get("topic"), Schedule: get("schedule"), Most: math.MaxInt, Count: inspect.Unknown}
	a.Dead = inspect.DeadFilter{Topic: a.Topic, Reason: get("reason"), Error: get("error")}
	a.Dead.Whole = get("group") != "" || a.Dead.Reason != "" || a.Dead.Error != "" // the group without reason and error has only "group"
	if before, err := strconv.ParseInt(get("before"), 10, 64); err == nil {
		a.Dead.Before = time.UnixMicro(before)
	}
	if p.form.Has("most") {
		a.Most = countOf(get("most"))
	}
	err := p.needs(found.of.needs...)
	if len(a.IDs) > maxSelected {
		a.IDs, err = nil, &wrong{"wrong.many", number(maxSelected), ""}
	}
	if a.ID == "" && a.Topic == "" && a.Schedule == "" {
		return nil, err
	}
	return a, err
}

// confirm shows the confirmation page. It changes nothing.
func (d *Dashboard) confirm(p *page) error {
	a, err := p.asked()
	if err != nil {
		return err
	}
	if !a.asks || a.of == ticked { // no link can lead to those
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

// act performs the action and redirects to a page that reports it.
func (d *Dashboard) act(p *page) error {
	a, err := p.asked()
	if a == nil {
		return err
	}
	p.at, _ = url.Parse("/" + a.Back())
	done := 0
	switch {
	case err != nil:
	case a.of == ticked && len(a.IDs) == 0: // shows the page with the checkboxes again
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

// failed shows the action's page again with the error and what was typed in.
func (a *act) failed(done int, err error) error {
	partly := ""
	if done > 0 {
		partly = a.done(a.Action, done)
	}
	a.touch()
	a.meet(err, partly)
	if !a.asks {
		return a.of.show(a.Dashboard, a.page)
	}
	if a.Counted() {
		if left, err := a.of.count(a); err == nil {
			a.Count = left
		}
	}
	return a.show("confirm", a)
}

// countOf parses a number in a link.
func countOf(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return 0
	}
	return n
}
