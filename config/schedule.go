package config

import (
	"cmp"
	"errors"
	"strings"
	"time"

	"github.com/mix-basic/delayer/internal/cron"
)

// Schedule is a [schedule.NAME] section: a periodic job.
type Schedule struct {
	Name             string
	Cron             string // five fields, "@daily" and the like, or "@every 90s"
	Zone             string // of Cron, by its name
	Topic            string
	Body             string        // the name, if the section has none
	Missed           string        // "once", "skip" or "all"
	Overlap          string        // "allow" or "skip"
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
		{section, "cron", "", spec(&s.Cron)},
		{section, "zone", "UTC", zone(&s.Zone)},
		{section, "topic", "", text(&s.Topic, ".+", "the topic of its jobs")},
		{section, "body", "", text(&s.Body, ".*", "")},
		{section, "missed", "once", text(&s.Missed, "once|skip|all", "once, skip or all")},
		{section, "overlap", "allow", text(&s.Overlap, "allow|skip", "allow or skip")},
		{section, "jitter", "0", number(&s.Jitter, time.Second, 0, largest)},
		{section, "max_attempts", "0", number(&s.MaxAttempts, 1, 0, largest)},
		{section, "ttr", "0", number(&s.TTR, time.Second, 0, 86_400)},
		{section, "ready_max_lifetime", "604800", number(&s.ReadyMaxLifetime, time.Second, 1, largest)},
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

func zone(field *string) func(string) error {
	return func(value string) error {
		*field = value
		if _, err := time.LoadLocation(value); err != nil || value == "Local" || value == "" {
			return errors.New("want the name of a time zone, such as Europe/Berlin, or UTC")
		}
		return nil
	}
}

// schedule begins the section of a schedule, or goes on with it.
func (l *loader) schedule(at place, section string) string {
	name := strings.TrimPrefix(section, schedulePrefix)
	if name == "" || len(name) > 200 || strings.ContainsAny(name, "{}") {
		l.fail(at, "want a name of 200 bytes at most behind schedule. without braces: [schedule.report]")
		return noSection
	}
	if _, again := l.names[section]; again {
		l.warn(at, "there is a section of this name already: they are taken together")
		return section
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
