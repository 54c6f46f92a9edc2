package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// foreign are compound names of things that are not this project's: of Redis, nginx, Prometheus, systemd, PHP, other queues, and the
// original's older servers.
var foreign = []string{
	"default_lua_flags", "aof_rewrite_in_progress", "proxy_read_timeout", "proxy_set_header", "basic_auth", "httpGet", "log_errors",
	"ExecStartPre", "LoadCredential", "LogsDirectory", "RestartPreventExitStatus", "RuntimeDirectory", "WatchdogSec",
	"ByPeriod", "unique_for", "rabbitmq_delayed_message_exchange", "messages_delayed", "bucket_name", "bucket_size", "queue_name", "dq_bucket_1", "dq_queue_TOPIC", "jop_pool", "script_check_enable",
	"delayer_lang", "delayer_theme", // cookies, whose names the code composes
}

var (
	word             = regexp.MustCompile(`[A-Za-z_][A-Za-z0-9_]*`)
	compound         = regexp.MustCompile(`[a-z0-9]_[a-z]|[a-z][A-Z]`) // snake_case, CamelCase
	documentedMetric = regexp.MustCompile("(?m)^\\| `(delayer_\\w+)`")
	inlineCode       = regexp.MustCompile("`([^`\n]+)`")
	elsewhere        = regexp.MustCompile(`(^|/)(gen|docs)/`) // files that name what others have
)

// TestNamedThings checks that compound names in code spans of documents, such as settings, fields, functions and metrics, are in the code.
func TestNamedThings(t *testing.T) {
	known, all := words(t), pages(t)
	for _, name := range foreign {
		known[name] = true
	}
	for _, metric := range documentedMetric.FindAllStringSubmatch(all["docs/metrics.md"], -1) { // which a test compares with a scrape
		known[metric[1]] = true
	}
	count := 0
	for page, text := range all {
		if strings.HasPrefix(page, "docs/adr/") || strings.HasPrefix(page, "docs/benchmark") || strings.HasPrefix(page, "bench/") || page == "CHANGELOG.md" {
			continue // they also name what is no more
		}
		for _, found := range inlineCode.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
			for _, name := range word.FindAllString(found[1], -1) {
				if !compound.MatchString(name) || namedPath.MatchString(found[0]) || namedTest.MatchString(name) || name == "alerts_test" {
					continue
				}
				if count++; !known[name] {
					t.Errorf("%s names %s, in %s: the code does not know it", page, name, found[0])
				}
			}
		}
	}
	if count < 500 {
		t.Errorf("%d are named", count)
	}
}

// words returns all words of sources, scripts and configuration.
func words(t *testing.T) map[string]bool {
	t.Helper()
	known := map[string]bool{}
	for file, text := range sources(t, ".go", ".lua", ".yaml", ".yml", ".conf", ".html", ".sh", ".mod", ".js", ".service") {
		if strings.HasSuffix(file, "_test.go") || elsewhere.MatchString(file) {
			continue
		}
		for _, name := range word.FindAllString(text, -1) {
			known[name] = true
		}
	}
	return known
}

var alert = regexp.MustCompile(`(?m)- alert: (\w+)$`)

// TestEachAlertIsExplained checks that the handbook says for each alert which command tells more, and what to do.
func TestEachAlertIsExplained(t *testing.T) {
	rules, err := os.ReadFile(filepath.Join(project, "docs/prometheus/alerts.yml"))
	must(t, err)
	alerts := alert.FindAllStringSubmatch(string(rules), -1)
	if len(alerts) < 15 {
		t.Fatalf("%d alerts", len(alerts))
	}
	for _, page := range []string{"docs/runbook.md", "docs/runbook.zh-CN.md"} {
		for _, a := range alerts {
			if !regexp.MustCompile(`(?m)^\| (\w+[,、] ?)*` + a[1] + `([,、] ?\w+)* \|`).MatchString(pages(t)[page]) {
				t.Errorf("%s does not explain %s", page, a[1])
			}
		}
	}
}

// disasters is the heading of the chapter behind the symptoms.
var disasters = regexp.MustCompile(`(?m)^## (Disasters|灾难)$`)

// TestEachSymptomHasACommand checks that each row of the chapter about troubleshooting names a command that tells more.
func TestEachSymptomHasACommand(t *testing.T) {
	for _, page := range []string{"docs/runbook.md", "docs/runbook.zh-CN.md"} {
		_, chapter, _ := strings.Cut(pages(t)[page], "`delayer get ID`")
		chapter = disasters.Split(chapter, 2)[0]
		count := 0
		for line := range strings.Lines(chapter) {
			cells := cellsOf(strings.TrimSpace(line))
			if len(cells) < 2 || strings.HasPrefix(cells[0], "---") || cells[0] == "symptom" || cells[0] == "症状" || cells[0] == "it is" || cells[0] == "状态" {
				continue
			}
			if count++; !strings.Contains(cells[1], "`delayer ") {
				t.Errorf("%s names no command: %s", page, line)
			}
		}
		if count < 15 {
			t.Errorf("%s has %d symptoms", page, count)
		}
	}
}
