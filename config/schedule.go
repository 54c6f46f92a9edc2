package config

import (
	"cmp"
	"errors"
	"strings"
	"time"

	"github.com/mix-basic/delayer/internal/cron"
	"github.com/mix-basic/delayer/internal/nearest"
	"github.com/mix-basic/delayer/internal/store"
)

// Schedule is a [schedule.NAME] section: a periodic job.
type Schedule struct {
	Name             string
	Cron             string // five fields, "@daily" and the like, or "@every 90s"
	Zone             string // of Cron, by its name
	Topic            string
	Body             string        // the name, if the section has none
	Missed           string        // "once", "skip" or "all"
	Overlap          string        // "allow", "skip" or "follow"
	Jitter           time.Duration // by how much a job is delayed at most
	MaxAttempts      int           // 0: as the consumer says
	TTR              time.Duration // 0: as the consumer says
	ReadyMaxLifetime time.Duration
}

// schedulePrefix begins the names of the sections of schedules.
const schedulePrefix = "schedule."

// keys are those of the section.
func (s *Schedule) keys() []key {
	section := schedulePrefix + s.Name
	return []key{
		{section, "cron", "", spec(&s.Cron), "minute, hour, day of the month, month, day of the week; or @daily, @every 90s; 5#2 needs quotes"},
		{section, "zone", "UTC", zone(&s.Zone), "UTC if not given"},
		{section, "topic", "", topic(&s.Topic), "of its jobs"},
		{section, "body", "", text(&s.Body, ".*", ""), "the section's name if not given"},
		{section, "missed", "once", text(&s.Missed, "once|skip|all", "once, skip or all"),
			"what becomes of moments that no server saw in time: once (one job), skip (none) or all (the last 100)"},
		{section, "overlap", "allow", text(&s.Overlap, "allow|skip|follow", "allow, skip or follow"),
			"or skip: no job while the one before is not done; or follow: the newest one when it is"},
		{section, "jitter", "0", number(&s.Jitter, time.Second, 0, largest), "seconds that a job is delayed by at most"},
		{section, "max_attempts", "0", number(&s.MaxAttempts, 1, 0, largest), "how often a job is tried, 0 as the consumer says"},
		{section, "ttr", "0", number(&s.TTR, time.Second, 0, 86_400), "seconds that a job is reserved for, 0 as the consumer says"},
		{section, "ready_max_lifetime", "604800", number(&s.ReadyMaxLifetime, time.Second, 1, largest), "seconds that a job is kept once it is ready"},
	}
}

func spec(field *string) func(string) error {
	return func(value string) error {
		*field = value
		if value == "" {
			return errors.New("want when it is due, such as 0 7 * * mon-fri, @daily or @every 90s")
		}
		_, err := cron.Parse(value)
		return err
	}
}

func topic(field *string) func(string) error {
	return func(value string) error {
		*field = value
		if value == "" {
			return errors.New("want the topic of its jobs")
		}
		return store.CheckScheduleTopic(value)
	}
}

func zone(field *string) func(string) error {
	return func(value string) error {
		*field = value
		_, err := cron.Zone(cmp.Or(value, "none"))
		return err
	}
}

// scheduleOf is the name of the schedule that a section is of, or is meant to be of: a slip would leave the job undone.
func scheduleOf(section string) (name string, is bool) {
	kind, name, _ := strings.Cut(section, ".")
	return strings.TrimSpace(name), nearest.Of(strings.TrimSpace(kind), []string{"schedule"}) != ""
}

// schedule begins the section of a schedule, or goes on with it.
func (l *loader) schedule(at place, written, name string) (section string) {
	if err := store.CheckScheduleName(name); err != nil {
		l.fail(at, "the name of the schedule, as in [schedule.report]: %v", err)
		return noSection
	}
	if section = schedulePrefix + name; section != written {
		l.fail(at, "unknown section, did you mean [%s]?", section)
	}
	if first, again := l.set[section]; again {
		l.fail(at, "[%s] is at %s already: a schedule has one section, so give this one another name, or remove it", section, strings.TrimSuffix(first.file, ": "))
		return noSection
	}
	s := &Schedule{Name: name}
	l.schedules = append(l.schedules, s)
	for _, k := range s.keys() {
		k.set(k.standard) // cron and topic have none, which is found in the end
		l.keys[k.String()] = k
		l.names[section] = append(l.names[section], k.name)
	}
	l.set[section] = at
	return section
}

// endSchedules puts the schedules into the Config, if nothing is missing.
func (l *loader) endSchedules() {
	for _, s := range l.schedules {
		for _, name := range []string{"cron", "topic"} {
			k := l.keys[schedulePrefix+s.Name+"."+name]
			if _, set := l.set[k.String()]; !set {
				l.fail(l.set[schedulePrefix+s.Name], "%s is missing: %v", name, k.set(""))
			}
		}
		s.Body = cmp.Or(s.Body, s.Name)
		l.config.Schedules = append(l.config.Schedules, *s)
	}
}
