package metrics

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	samples "github.com/mix-basic/delayer/internal/docs"
	"github.com/mix-basic/delayer/internal/testing/redistest"
	"github.com/mix-basic/delayer/server"
)

const docs = "../../../docs"

func readDoc(tb testing.TB, name string) string {
	tb.Helper()
	text, err := os.ReadFile(filepath.Join(docs, name))
	check(tb, err)
	return string(text)
}

// fullScrape returns a scrape with a series of each metric.
func fullScrape(tb testing.TB) scrape {
	w := newWorldOf(tb, 2, Options{Version: "1.2.3"})
	w.push("mail", "a", 0)
	w.Do("HMSET", "delayer:{0}:job_bucket:b", "topic", "mail", "body", "x")
	w.Do("ZADD", "delayer:{0}:job_pool", 1, "b")
	w.metrics.Pushed("mail", 1)
	w.metrics.Moved("mail", server.Moved{Jobs: 1, Returned: 1})
	w.metrics.Called("move", time.Millisecond)
	w.pass()
	w.ask("GET", "/healthz")
	w.Do("ZADD", "delayer:job_pool", 1, "stray")
	w.Do("HSET", "delayer:{0}:paused", "mail", "1 0 0 0 why")
	w.Do("HSET", "delayer:{0}:limits", "mail", "1 1000 1 0 0 1 1000 1 vip")
	w.Do("HSET", "delayer:{0}:reserved", "mail", 1<<40)
	w.Do("EVAL", `for i = 1, 60 do redis.call('RPUSH', 'delayer:{0}:ready_queue:mail', 'ghost' .. i) end`, 0)
	return w.scrapeWith("?due_soon=1")
}

// described formats the metrics like the table in the docs: "`name` type label, label aggregate".
func (s scrape) described() []string {
	var all []string
	for _, kind := range regexp.MustCompile(`(?m)^# TYPE (delayer_\w+) (\w+)$`).FindAllStringSubmatch(string(s), -1) {
		name, labels := kind[1], []string{}
		series := regexp.MustCompile(`(?m)^`+name+`(?:_bucket|_sum|_count)?(?:\{(.*)\})? `).FindAllStringSubmatch(string(s), -1)
		for _, one := range series {
			for _, label := range regexp.MustCompile(`(\w+)="`).FindAllStringSubmatch(one[1], -1) {
				if label[1] != "le" && !slices.Contains(labels, label[1]) {
					labels = append(labels, label[1])
				}
			}
		}
		slices.Sort(labels)
		help := regexp.MustCompile(`(?m)^# HELP ` + name + ` (.*)$`).FindStringSubmatch(string(s))[1]
		aggregate := ""
		if strings.HasSuffix(help, wholeRedis) {
			aggregate = "max"
		} else if strings.HasSuffix(help, thisProcess) {
			aggregate = "sum"
		}
		all = append(all, strings.Join([]string{"`" + name + "`", kind[2], strings.Join(labels, ", "), aggregate}, " | "))
	}
	slices.Sort(all)
	return all
}

// The tables in the docs list each metric with its type, labels and aggregation.
func TestDocumentedMetrics(t *testing.T) {
	scraped := fullScrape(t).described()
	for _, name := range []string{"metrics.md", "metrics.zh-CN.md"} {
		var documented []string
		for line := range strings.Lines(readDoc(t, name)) {
			if !strings.HasPrefix(line, "| `delayer_") {
				continue
			}
			cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
			for i := range cells {
				cells[i] = strings.TrimSpace(cells[i])
			}
			aggregate := cells[4]
			if aggregate != "max" && aggregate != "sum" {
				aggregate = ""
			}
			documented = append(documented, strings.Join([]string{cells[0], cells[1], cells[2], aggregate}, " | "))
		}
		slices.Sort(documented)
		if !slices.Equal(documented, scraped) {
			t.Errorf("%s:\n%s\nscraped:\n%s", name, strings.Join(documented, "\n"), strings.Join(scraped, "\n"))
		}
	}
}

// dashboard holds the queries of a Grafana dashboard.
type dashboard struct {
	Panels []struct {
		Title   string
		Targets []struct{ Expr string }
	}
	Templating struct{ List []struct{ Definition string } }
}

func (d dashboard) expressions(tb testing.TB) []string {
	var all []string
	for _, panel := range d.Panels {
		if len(panel.Targets) == 0 {
			tb.Errorf("panel %s asks for nothing", panel.Title)
		}
		for _, target := range panel.Targets {
			all = append(all, target.Expr)
		}
	}
	return all
}

func readDashboard(tb testing.TB) (d dashboard) {
	check(tb, json.Unmarshal([]byte(readDoc(tb, "grafana/delayer.json")), &d))
	return d
}

// The dashboard and the alerts use only existing metrics.
func TestDocumentedExpressions(t *testing.T) {
	s := fullScrape(t)
	d := readDashboard(t)
	alerts := readDoc(t, "prometheus/alerts.yml")
	asked := append(d.expressions(t), alerts)
	for _, variable := range d.Templating.List {
		asked = append(asked, variable.Definition)
	}
	named := map[string]bool{}
	for _, expression := range asked {
		names := regexp.MustCompile(`delayer_\w+`).FindAllString(expression, -1)
		if len(names) == 0 && expression != "" {
			t.Errorf("%s asks for no metric of ours", expression)
		}
		for _, name := range names {
			named[name] = true
		}
	}
	for name := range named {
		if len(s.series(name+"{"))+len(s.series(name+" ")) == 0 {
			t.Errorf("%s does not exist", name)
		}
	}
}

// promtool runs Prometheus's tool and expects success.
func promtool(tb testing.TB, input string, args ...string) {
	tb.Helper()
	path, err := exec.LookPath("promtool")
	if err != nil {
		if os.Getenv("PROMTOOL") != "" {
			tb.Fatal("promtool is not installed; make e2e installs it")
		}
		tb.Skip("promtool is not installed; make e2e installs it")
	}
	command := exec.Command(path, args...)
	command.Stdin = strings.NewReader(input)
	if out, err := command.CombinedOutput(); err != nil {
		tb.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// promtool accepts the metrics, the alerts and the dashboard's queries.
func TestPromtool(t *testing.T) {
	redistest.Long(t)
	promtool(t, string(fullScrape(t)), "check", "metrics")
	promtool(t, "", "check", "rules", filepath.Join(docs, "prometheus/alerts.yml"))
	promtool(t, "", "test", "rules", filepath.Join(docs, "prometheus/alerts_test.yml"))
	for _, page := range []string{"metrics.md", "metrics.zh-CN.md"} {
		var configuration strings.Builder
		for _, sample := range samples.Samples(readDoc(t, page)) {
			if sample.Language == "yaml" && !strings.Contains(sample.Text, "Probe:") { // a Kubernetes probe
				configuration.WriteString(sample.Text)
			}
		}
		file := filepath.Join(t.TempDir(), "prometheus.yml")
		check(t, os.WriteFile(file, []byte(configuration.String()), 0o600))
		promtool(t, "", "check", "config", "--syntax-only", file)
	}

	rules := "groups:\n  - name: dashboard\n    rules:\n"
	for _, expression := range readDashboard(t).expressions(t) {
		quoted, _ := json.Marshal(strings.ReplaceAll(expression, "$__rate_interval", "1m"))
		rules += "      - record: x\n        labels: {n: " + strings.TrimSpace(string(quoted)) + "}\n        expr: " + string(quoted) + "\n"
	}
	file := filepath.Join(t.TempDir(), "dashboard.yml")
	check(t, os.WriteFile(file, []byte(rules), 0o600))
	promtool(t, "", "check", "rules", file)
}
