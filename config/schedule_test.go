package config

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestSchedules(t *testing.T) {
	got, warnings, err := load(`[schedule.report]
cron = 0 7 * * mon-fri ; each working day
zone = Europe/Berlin
topic = reports
body = "{\"of\":\"yesterday\"}"
headers = {"tenant": "größe", "a": "b"}
missed = all
overlap = skip
jitter = 30
max_attempts = 3
lease = 60
expire_after = 3600
[redis]
port = 6380
[schedule.second friday]
cron = "30 2 * * 5#2"
topic = t
overlap = follow
`)
	want := []Schedule{
		{"report", "0 7 * * mon-fri", "Europe/Berlin", "reports", `{"of":"yesterday"}`, `{"a":"b","tenant":"größe"}`, "all", "skip", 30 * time.Second, 3, time.Minute, time.Hour},
		{"second friday", "30 2 * * 5#2", "UTC", "t", "second friday", "", "once", "follow", 0, 0, 0, 7 * 24 * time.Hour},
	}
	if err != nil || len(warnings) > 0 || !reflect.DeepEqual(got.Schedules, want) || got.Redis.Port != 6380 {
		t.Errorf("got  %+v, %v, %v\nwant %+v", got.Schedules, warnings, err, want)
	}
}

func TestWrongSchedules(t *testing.T) {
	for text, want := range map[string][]string{
		"[schedule.a]\ncron = 0 25 * * *\ntopic = t": {`f:2: schedule.a.cron: "0 25 * * *", hour, "25" at character 3: want 0 to 23`},
		"[schedule.a]\ncron = 0 0 * * 5#2\ntopic = t": {
			"f:2: schedule.a.cron: the # starts a comment: put the value in double quotes, or a space on both sides of the #"},
		"\n[schedule.a]\ncron =":                                                {"f:3: schedule.a.cron: want when it is due, such as 0 7 * * mon-fri, @daily or @every 90s", "f:2: topic is missing: want the topic of its jobs"},
		"[schedule.a]\ntopic = t":                                               {"f:1: cron is missing: want when it is due, such as 0 7 * * mon-fri, @daily or @every 90s"},
		"[schedule.]\ncron = x":                                                 {"f:1: wrong schedule name, want one as in [schedule.report]: it is empty"},
		"[schedule.{a}]\ncron = x":                                              {"f:1: wrong schedule name, want one as in [schedule.report]: want no braces and no control characters"},
		"[schedule.a]\ncron = @daily\ntopic = t\nzone = Mars":                   {"f:4: schedule.a.zone: want the name of a time zone, such as Europe/Berlin, or UTC"},
		"[schedule.a]\ncron = @daily\ntopic = t\nmissed = no":                   {"f:4: schedule.a.missed: want once, skip or all"},
		"[schedule.a]\ncron = @daily\ntopic = t\noverlap = no":                  {"f:4: schedule.a.overlap: want allow, skip or follow"},
		"[schedule.a]\ncron = @daily\ntopic = t\njitter = 1m":                   {"f:4: schedule.a.jitter: want a whole number of seconds from 0 to 2147483647, in decimal digits without leading zeros"},
		"[schedule.a]\ncron = @daily\ntopic = t\nheaders = tenant":              {`f:4: schedule.a.headers: want a JSON object of texts, such as {"tenant":"acme"}`},
		"[schedule.a]\ncron = @daily\ntopic = t\nheaders = {\"a\":1}":           {`f:4: schedule.a.headers: want a JSON object of texts, such as {"tenant":"acme"}`},
		"[schedule.a]\ncron = @daily\ntopic = t\nheaders = {\"a b\":\"c\"}":     {`f:4: schedule.a.headers: the name "a b" is not 1 to 128 letters, digits, dots, underscores and hyphens`},
		"[schedules.report]\ncron = @daily\ntopic = t":                          {"f:1: unknown section, did you mean [schedule.report]?"},
		"\n[Schedule.report]\ncron = @daily\ntopic = t":                         {"f:2: unknown section, did you mean [schedule.report]?"},
		"[ schedule.report]\ncron = x\ntopic = t":                               {"f:1: unknown section, did you mean [schedule.report]?", `f:2: schedule.report.cron: "x": it has 1 fields, want 5: minute, hour, day of the month, month, day of the week`},
		"[schedule.report ]\ncron = @daily\ntopic = t":                          {"f:1: unknown section, did you mean [schedule.report]?"},
		"[schedule. report]\ncron = @daily\ntopic = t":                          {"f:1: unknown section, did you mean [schedule.report]?"},
		"[schedul.a.b]\ncron = @daily\ntopic = t":                               {"f:1: unknown section, did you mean [schedule.a.b]?"},
		"[schedule]\ncron = @daily\ntopic = t":                                  {"f:1: wrong schedule name, want one as in [schedule.report]: it is empty"},
		"[schedule.a\tb]\ncron = @daily\ntopic = t":                             {"f:1: wrong schedule name, want one as in [schedule.report]: want no braces and no control characters"},
		"[schedule." + strings.Repeat("a", 201) + "]\ncron = @daily\ntopic = t": {"f:1: wrong schedule name, want one as in [schedule.report]: it has 201 bytes: want 200 at most"},
		"[schedule.a]\ncron = @daily\ntopic = " + strings.Repeat("t", 1025):     {"f:3: schedule.a.topic: it has 1025 bytes: want 1024 at most"},
		"[schedule.a]\ncron = @daily\ntopic = delayer:schedules":                {"f:3: schedule.a.topic: it is that of schedules"},
		"[schedule.a]\ncron = @daily\ntopic = t\n[schedule.a]\ncron = @hourly\ntopic = u": {
			"f:4: [schedule.a] is at f:1 already: a schedule has one section; rename this one, or remove it"},
		"[schedule.a]\ntopic = t\n[schedule.a]\ncron = @hourly": {
			"f:3: [schedule.a] is at f:1 already: a schedule has one section; rename this one, or remove it",
			"f:1: cron is missing: want when it is due, such as 0 7 * * mon-fri, @daily or @every 90s"},
	} {
		_, _, err := load(text)
		var got Problems
		if errors.As(err, &got); !slices.Equal(got, want) {
			t.Errorf("%q:\n got %q\nwant %q", text, got, want)
		}
	}
	const doubtful = "[schedule.a]\ncron = @daily\ntopic = t\ntopics = u\n"
	got, warnings, err := load(doubtful)
	want := Problems{"f:4: warning: schedule.a.topics: unknown key, did you mean topic?"}
	if err != nil || !slices.Equal(warnings, want) || len(got.Schedules) != 1 || got.Schedules[0].Body != "a" {
		t.Errorf("got %+v, %q, %v", got.Schedules, warnings, err)
	}
}
