package config

import (
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var commentedKey = regexp.MustCompile(`(?m)^; ([a-z_]+ =)`)

func shippedFile(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../delayer.conf")
	must(t, err)
	return string(text)
}

func TestShippedFileIsTheDefault(t *testing.T) {
	if got, err := Load("../delayer.conf"); err != nil || len(got.Warnings) > 0 || !equal(got.Config, Default()) {
		t.Errorf("got %+v, %v\nwant %+v", got, err, Default())
	}
	uncommented := commentedKey.ReplaceAllString(shippedFile(t), "$1")
	wantChanged(t, func(c *Config) { c.HTTP.Listen = "127.0.0.1:9277" }, uncommented) // the line enables the HTTP server
}

func TestShippedFileHasEveryKeyInOrder(t *testing.T) {
	var got []string
	section := ""
	for line := range strings.Lines(commentedKey.ReplaceAllString(shippedFile(t), "$1")) {
		line = strings.TrimSpace(line)
		switch {
		case line == "" || line[0] == ';':
		case line[0] == '[':
			section = strings.Trim(line, "[]")
		default:
			name, _, _ := strings.Cut(line, " =")
			got = append(got, section+"."+name)
		}
	}
	var want []string
	for _, k := range new(Config).keys() {
		want = append(want, k.String())
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("keys in delayer.conf: %q\nwant %q", got, want)
	}
}

// The manual page delayer.conf(5), generated from the table of keys, agrees with the shipped file.
func TestShippedFileSaysWhatTheTableSays(t *testing.T) {
	for _, k := range Keys() {
		if k.About == "" || !regexp.MustCompile(`(?m)^;? *`+k.Name+` =.*; `+regexp.QuoteMeta(k.About)+`$`).MatchString(shippedFile(t)) {
			t.Errorf("[%s] %s: the file does not say %q beside it", k.Section, k.Name, k.About)
		}
	}
}

// The original has no defaults and must be able to read the file.
func TestShippedFileSetsTheOriginalsKeys(t *testing.T) {
	active := commentedKey.ReplaceAllString(shippedFile(t), ";")
	for _, name := range []string{"pid", "timer_interval", "access_log", "error_log", "host", "port", "database", "password",
		"max_idle", "max_active", "idle_timeout", "conn_max_lifetime"} {
		if !regexp.MustCompile(`(?m)^` + name + ` =`).MatchString(active) {
			t.Errorf("%s is not set in delayer.conf, as it is in the original's", name)
		}
	}
}

// The tables of keys in both languages list every key of each section, in order, with its default.
func TestDocumentedDefaults(t *testing.T) {
	var want []string
	for _, k := range slices.Concat(new(Config).keys(), (&Schedule{Name: "NAME"}).keys()) {
		standard := k.standard
		switch {
		case k.String() == "schedule.NAME.body":
			standard = "NAME"
		case k.name == "cron" || k.section == "schedule.NAME" && k.name == "topic": // required: no default
		case standard == "":
			standard = "–"
		}
		want = append(want, k.String()+" = "+standard)
	}
	slices.Sort(want)
	for _, page := range []string{"configuration.md", "configuration.zh-CN.md"} {
		text, err := os.ReadFile("../docs/" + page)
		must(t, err)
		var got []string
		section := ""
		table, _, _ := strings.Cut(string(text), "\n### ")
		for _, row := range regexp.MustCompile(`(?m)^\| ([^|]+) \| ?([^|]*)\|`).FindAllStringSubmatch(table, -1) {
			if name := regexp.MustCompile(`^\*\*\[(.*)\]\*\*$`).FindStringSubmatch(row[1]); name != nil {
				section = name[1]
				continue
			} else if section == "" || !regexp.MustCompile(`^[a-z_, ]+$`).MatchString(row[1]) {
				continue
			}
			names := strings.Split(row[1], ", ")
			standards := strings.Split(regexp.MustCompile(` ?[(（]\[.*`).ReplaceAllString(strings.TrimSpace(row[2]), ""), ", ")
			for i, name := range names {
				got = append(got, section+"."+name+" = "+standards[min(i, len(standards)-1)])
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("docs/%s has\n%s\nwant\n%s", page, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}
