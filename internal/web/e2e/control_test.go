package e2e

import (
	"fmt"
	"testing"

	"github.com/chromedp/cdproto/emulation"
)

// looks lists screen widths and languages.
var looks = []struct {
	language string
	width    int64
}{{"en", 1280}, {"zh", 1280}, {"en", 390}, {"zh", 390}}

// look sets the language and the screen width.
func (p page) look(language string, width int64) {
	p.Helper()
	p.do(emulation.SetDeviceMetricsOverride(width, 844, 1, width < 640))
	p.open("/?lang=" + language)
	if got := p.eval(`document.documentElement.lang`); got != language {
		p.Fatalf("the pages are in %s, want %s", got, language)
	}
}

// fits fails the test if the page is wider than the screen, or one of the elements is not fully visible in its
// width.
func (p page) fits(selectors ...string) {
	p.Helper()
	if wide := p.eval(`String(document.documentElement.scrollWidth - innerWidth)`); wide[0] != '-' && wide != "0" {
		p.Errorf("the page is %s pixels wider than the screen", wide)
	}
	for _, selector := range selectors {
		const outside = `(e => !e ? "missing" : (b => b.width == 0 || b.left < 0 || b.right > innerWidth ? JSON.stringify(b) : "")(e.getBoundingClientRect()))`
		if got := p.eval(outside + `(document.querySelector(` + quoted(selector) + `))`); got != "" {
			p.Errorf("%s is not seen whole: %s", selector, got)
		}
	}
}

// A topic is paused, resumed, limited and freed. Each change shows on its page, on the overview and in the list.
func TestPauseAndLimit(t *testing.T) {
	p := openPage(t, "")
	says := map[string]map[string]string{
		"paused":  {"en": "The topic is paused.", "zh": "主题已暂停。"},
		"resumed": {"en": "The topic is resumed.", "zh": "主题已恢复投递。"},
		"limited": {"en": "The topic is limited.", "zh": "已为该主题设置限额。"},
		"wrong":   {"en": `rate "fast": want a number`, "zh": `速率 "fast"：应为`},
		"slot":    {"en": "2 until a slot is free", "zh": "2 直到有空闲名额"},
		"free":    {"en": "The limit was removed.", "zh": "限额已取消。"},
	}
	for _, look := range looks {
		topic := fmt.Sprint("mail-", look.language, "-", look.width)
		for n := range 3 {
			p.call("/v1/jobs", map[string]any{"id": fmt.Sprint(topic, n), "topic": topic, "body": "b"})
		}
		p.look(look.language, look.width)
		p.openUntil("/ui/topics", `[...document.querySelectorAll("#topics a[data-topic]")].some(a => a.innerText === `+quoted(topic)+`)`)
		p.open("/" + p.eval(`[...document.querySelectorAll("#topics a[data-topic]")].find(a => a.innerText === `+quoted(topic)+`).getAttribute("href")`))
		if p.eval(`String(document.querySelector("#pause form").checkVisibility())`) != "false" {
			t.Error("the form of the pause is open before anybody has asked for it")
		}

		p.press("#pause > summary")
		p.fill("#pause [name=for]", "2h")
		p.fill("#pause [name=note]", "ask Eve")
		p.fits("#pause form", "#pause [name=note]", "[data-do=pause]")
		p.click("[data-do=pause]")
		p.says("#done", says["paused"][look.language])
		p.says("#note", "ask Eve")
		p.fits("#paused", "[data-do=resume]")
		page := p.eval("location.pathname + location.search")
		p.openUntil("/", `document.querySelector("#slowed [data-paused]")`)
		p.shows("#slowed", topic, "ask Eve")
		p.fits("#slowed")
		p.open(page)
		p.click("[data-do=resume]")
		p.says("#done", says["resumed"][look.language])

		p.press("#limit > summary")
		p.fill("#limit [name=concurrency]", "1")
		p.fill("#limit [name=rate]", "fast")
		p.fits("#limit form", "#limit [name=tag]", "[data-do=limit]")
		p.click("[data-do=limit]")
		p.shows("#problem", says["wrong"][look.language])
		p.fits("#problem", "#limit form") // the form is still open
		p.fill("#limit [name=rate]", "100/s")
		p.click("[data-do=limit]")
		p.says("#done", says["limited"][look.language])
		p.reserve(topic)
		p.open(page)
		p.says("#throttled", says["slot"][look.language])
		p.fits("#limited", "[data-do=end_limit]")
		p.openUntil("/ui/topics", `document.querySelector("#topics [data-limited]")`)
		p.fits()
		p.openUntil("/", `document.querySelector("#slowed [data-limited]")`)
		p.fits("#slowed")
		p.open(page)
		p.click("[data-do=end_limit]")
		p.says("#done", says["free"][look.language])
		p.openUntil("/", `!document.querySelector("#slowed")`)
	}
}

// An open overview updates when a topic is paused.
func TestOverviewFollowsPauses(t *testing.T) {
	p := openPage(t, "")
	p.openUntil("/", `!document.querySelector("#slowed")`)
	p.call("/v1/topics/mail/pause", map[string]any{"note": "why"})
	p.until("it is paused", `document.querySelector("#slowed [data-paused]")`, func() {})
	p.call("/v1/topics/mail/resume", nil)
	p.until("it is resumed", `!document.querySelector("#slowed")`, func() {})
}

// A schedule is run by hand, paused, resumed and deleted, and shows its last runs.
func TestSchedules(t *testing.T) {
	p := openPage(t, "")
	says := map[string]map[string]string{
		"ran":        {"en": "A job of the schedule was pushed.", "zh": "已推送该定时任务的一个任务。"},
		"occurrence": {"en": "pushed by hand", "zh": "手动推送"},
		"paused":     {"en": "The schedule is paused.", "zh": "定时任务已暂停。"},
		"resumed":    {"en": "The schedule is resumed.", "zh": "定时任务已恢复。"},
		"deleted":    {"en": "The schedule was deleted.", "zh": "定时任务已删除。"},
	}
	for _, look := range looks {
		p.put("/v1/schedules/report", map[string]any{"cron": "0 7 * * mon-fri", "zone": "Asia/Shanghai", "topic": "report", "body": "b", "overlap": "follow"})
		p.put("/v1/schedules/often", map[string]any{"cron": "@every 100ms", "topic": "often", "body": "b", "overlap": "skip"})
		p.look(look.language, look.width)
		row := func(name string) string { return `tr[data-row="` + name + `"] ` }
		report, often := row("report"), row("often")
		p.open("/ui/schedules")
		p.shows("#schedules", "report", "0 7 * * mon-fri", "Asia/Shanghai", "@every 100ms")
		p.fits(report+".rest", report+"[data-do=run_now]", report+"[data-overlap=follow]")

		p.click(report + "[data-do=run_now]")
		p.says("#done", says["ran"][look.language])
		p.shows(report+"summary", says["occurrence"][look.language])
		p.press(report + "summary")
		p.shows(report+".occurrences", says["occurrence"][look.language])
		p.fits(report + ".occurrences")
		p.click(report + "[data-do=pause_schedule]")
		p.says("#done", says["paused"][look.language])
		p.fits(report+"[data-paused]", report+"[data-do=resume_schedule]")
		p.click(report + "[data-do=resume_schedule]")
		p.says("#done", says["resumed"][look.language])

		// The first run has a job that no consumer takes. The later runs are skipped.
		p.openUntil("/ui/schedules", `document.querySelectorAll(`+quoted(often+`[data-occurrence="overlapped"]`)+`).length >= 9`)
		p.press(often + "summary")
		p.fits(often + ".occurrences")
		if got := p.text(often + "[data-count=jobs]"); got != "1" {
			t.Errorf("it has had %s jobs", got)
		}
		for _, name := range []string{"report", "often"} {
			p.open("/ui/schedules")
			p.press(row(name) + ".rest > summary")
			p.fits(row(name) + "[data-do=unschedule]")
			p.click(row(name) + "[data-do=unschedule]")
			p.fits("#confirm")
			p.click("button[data-do=unschedule]")
			p.says("#done", says["deleted"][look.language])
		}
	}
}
