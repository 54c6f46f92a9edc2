package config

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

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
