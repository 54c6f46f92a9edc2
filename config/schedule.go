package config

import (
	"cmp"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/mix-basic/delayer/internal/cron"
	"github.com/mix-basic/delayer/internal/nearest"
	"github.com/mix-basic/delayer/internal/store"
)

// Schedule is a [schedule.NAME] section: a periodic job.
type Schedule struct {
	Name        string
	Cron        string // five fields, "@daily" and the like, or "@every 90s"
	Zone        string // name of Cron's time zone
	Topic       string
	Body        string        // the name, if the section has none
	Headers     string        // a JSON object of texts, or empty
	Missed      string        // "once", "skip" or "all"
	Overlap     string        // "allow", "skip" or "follow"
	Jitter      time.Duration // maximum random delay of a job
	MaxAttempts int           // 0: the consumer decides
	Lease       time.Duration // 0: the consumer decides
	ExpireAfter time.Duration
}

// schedulePrefix is the prefix of schedules' sections.
const schedulePrefix = "schedule."

// keys are the keys of the section.
func (s *Schedule) keys() []key {
	return in(schedulePrefix+s.Name, []setting{
		{"cron", "", checked(&s.Cron, checkCron), "minute, hour, day of the month, month, day of the week; or @daily, @every 90s; 5#2 needs quotes"},
		{"zone", "UTC", checked(&s.Zone, checkZone), "default: UTC"},
		{"topic", "", checked(&s.Topic, checkTopic), "topic of the jobs"},
		{"body", "", anyText(&s.Body), "default: the section's name"},
		{"headers", "", headers(&s.Headers), "headers of the jobs as JSON"},
		{"missed", "once", text(&s.Missed, "once|skip|all", "once, skip or all"),
			"runs that were due while no server was up: once (one job now), skip (none) or all (the last 100)"},
		{"overlap", "allow", text(&s.Overlap, "allow|skip|follow", "allow, skip or follow"),
			"if the last job is not done: allow (push anyway), skip, or follow (the newest runs when it is done)"},
		{"jitter", "0", number(&s.Jitter, time.Second, 0, largest), "maximum random delay of a job in seconds"},
		{"max_attempts", "0", number(&s.MaxAttempts, 1, 0, largest), "attempts per job, 0: the consumer decides"},
		{"lease", "0", number(&s.Lease, time.Second, 0, 86_400), "seconds a job is reserved for, 0: the consumer decides"},
		{"expire_after", "604800", number(&s.ExpireAfter, time.Second, 1, largest), "seconds a ready job is kept"},
	})
}

func checkCron(value string) error {
	if value == "" {
		return errors.New("want when it is due, such as 0 7 * * mon-fri, @daily or @every 90s")
	}
	_, err := cron.Parse(value)
	return err
}

func checkZone(value string) error {
	_, err := cron.Zone(cmp.Or(value, "none"))
	return err
}

func checkTopic(value string) error {
	if value == "" {
		return errors.New("want the topic of its jobs")
	}
	return store.CheckScheduleTopic(value)
}

// headers accepts a JSON object of texts, or nothing.
func headers(field *string) func(string) error {
	return checked(field, func(value string) error {
		all := map[string]string{}
		if value == "" {
			return nil
		}
		if json.Unmarshal([]byte(value), &all) != nil || len(all) == 0 {
			return errors.New(`want a JSON object of texts, such as {"tenant":"acme"}`)
		}
		text, wrong := store.HeadersText(all)
		if *field = text; wrong != "" {
			return errors.New(wrong)
		}
		return nil
	})
}

// scheduleOf returns the name in a schedule's section header, also a misspelt one: otherwise the job would
// never run.
func scheduleOf(section string) (name string, is bool) {
	kind, name, _ := strings.Cut(section, ".")
	return strings.TrimSpace(name), nearest.Of(strings.TrimSpace(kind), []string{"schedule"}) != ""
}

// schedule starts a schedule's section, or continues it.
func (l *loader) schedule(at place, written, name string) (section string) {
	if err := store.CheckScheduleName(name); err != nil {
		l.fail(at, "wrong schedule name, want one as in [schedule.report]: %v", err)
		return noSection
	}
	if section = schedulePrefix + name; section != written {
		l.fail(at, "unknown section, did you mean [%s]?", section)
	}
	if first, again := l.set[section]; again {
		l.fail(at, "[%s] is at %s already: a schedule has one section; rename this one, or remove it", section, strings.TrimSuffix(first.file, ": "))
		return noSection
	}
	s := &Schedule{Name: name}
	l.schedules = append(l.schedules, s)
	for _, k := range s.keys() {
		k.set(k.standard) // cron and topic have none; endSchedules checks them
		l.keys[k.String()] = k
		l.names[section] = append(l.names[section], k.name)
	}
	l.set[section] = at
	return section
}

// endSchedules adds the complete schedules to the Config.
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
