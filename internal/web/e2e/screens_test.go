package e2e

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/client"
)

// screens is a folder for screenshots of the pages. If it is empty, no file is written. docs/screens has the screenshots used in documents:
//
//	SCREENS=/tmp/screens go test -C internal/web/e2e -count 1 -run Screens
//
// The Chinese pages need a system font.
var screens = os.Getenv("SCREENS")

// TestScreens opens each page, light, dark and on a phone: none is wider than the screen.
func TestScreens(t *testing.T) {
	p := openPage(t, "")
	fillShop(t, p.redis.Addr)
	pages := []struct{ name, path, shows string }{
		{"overview", "/", `document.querySelectorAll(".plot canvas").length === 3 && document.querySelector("#n-dead").innerText !== "0"`},
		{"topics", "/ui/topics", `document.querySelector("#topics")`},
		{"consumers", "/ui/consumers", `document.querySelector("#consumers")`},
		{"topic", "/ui/topic?state=waiting&topic=close_order", `document.querySelector("#jobs")`},
		{"topic-limited", "/ui/topic?topic=rate_order", `document.querySelector("#limited")`},
		{"topic-paused", "/ui/topic?topic=remind_member", `document.querySelector("#paused")`},
		{"topic-limit", "/ui/topic?topic=rate_order", `document.querySelector("#limit").open = true`},
		{"schedules", "/ui/schedules", `document.querySelector("#schedules")`},
		{"job", job("close-order-1007"), `document.querySelector("#job")`},
		{"dead-letters", "/ui/dead", `document.querySelector("#dead-topics")`},
		{"dead-letters-of-a-topic", "/ui/dead/topic?topic=send_mail", `document.querySelector("#groups")`},
		{"confirmation", "/ui/act/purge?topic=rate_order", `document.querySelector("#confirm")`},
		{"push", "/ui/push", `document.querySelector("#push")`},
		{"overview-zh", "/?lang=zh", `document.querySelectorAll(".plot canvas").length === 3`},
		{"topic-limited-zh", "/ui/topic?topic=rate_order", `document.querySelector("#limited")`},
		{"topic-paused-zh", "/ui/topic?topic=remind_member", `document.querySelector("#paused")`},
		{"dead-letters-of-a-topic-zh", "/ui/dead/topic?topic=send_mail", `document.querySelector("#groups")`},
		{"schedules-zh", "/ui/schedules", `document.querySelector("#schedules")`},
	}
	for _, look := range []struct {
		name          string
		width, height int64
		scheme        string
	}{{"light", 1280, 900, "light"}, {"dark", 1280, 900, "dark"}, {"phone", 390, 844, "light"}} {
		p.do(
			emulation.SetDeviceMetricsOverride(look.width, look.height, 1, look.name == "phone"),
			emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: look.scheme}}))
		p.open("/?lang=en")
		for _, page := range pages {
			p.openUntil(page.path, page.shows)
			if wide := p.eval(`String(document.documentElement.scrollWidth - innerWidth)`); wide[0] != '-' && wide != "0" {
				t.Errorf("%s, %s: the page is %s pixels wider than the screen", page.name, look.name, wide)
			}
			if screens == "" {
				continue
			}
			var picture []byte
			take := chromedp.CaptureScreenshot(&picture)
			if page.name == "overview" || page.name == "overview-zh" {
				time.Sleep(40 * time.Second) // fills the charts, whose points are ten seconds apart
				take = chromedp.FullScreenshot(&picture, 100)
			}
			p.do(take)
			check(t, os.WriteFile(filepath.Join(screens, page.name+"-"+look.name+".png"), picture, 0o644))
		}
	}
}

// fillSchedules creates some schedules.
func fillSchedules(t *testing.T, c *client.Client) {
	t.Helper()
	for _, s := range []client.Schedule{
		{Name: "daily report", Cron: "0 7 * * mon-fri", Zone: "Asia/Shanghai", Topic: "report", Body: "{}"},
		{Name: "clean up", Every: 10 * time.Minute, Topic: "clean_up", Body: "{}", Overlap: "skip"},
		{Name: "invoices", Cron: "30 9 L * *", Zone: "Europe/Berlin", Topic: "invoice", Body: "{}"},
	} {
		_, err := c.Schedules().Set(t.Context(), s)
		check(t, err)
		_, err = c.Schedules().Run(t.Context(), s.Name)
		check(t, err)
		d, err := c.Reserve(t.Context(), time.Minute, s.Topic)
		check(t, err)
		check(t, d.Ack(t.Context()))
	}
	check(t, c.Schedules().Pause(t.Context(), "invoices"))
}

// fillHour fills the last hour as the servers would have done, except for ten minutes without a
// server.
func fillHour(t *testing.T, addr string) {
	t.Helper()
	conn, err := redis.Dial("tcp", addr)
	check(t, err)
	defer conn.Close()
	acked, now := 100000, time.Now().Unix()/10
	for n := now - 359; n < now-1; n++ {
		ago := float64(now - n)
		jobs := 40 + int(25*math.Sin(ago/25)+10*math.Sin(ago/7))
		if ago > 200 && ago < 260 {
			continue
		}
		acked += jobs
		late := max(jobs/60, 1)
		_, err := conn.Do("HSET", "delayer:history", n%360, fmt.Sprintf("%d %d 1:%d,2:%d,4:%d", n, acked, jobs*2/3, jobs/3, late))
		check(t, err)
	}
}

// notify pushes and takes jobs evenly.
func notify(ctx context.Context, c *client.Client) {
	evening := time.NewTicker(150 * time.Millisecond)
	defer evening.Stop()
	for ctx.Err() == nil {
		<-evening.C
		c.Push(ctx, client.Message{Topic: "notify", Body: "b"}, 200*time.Millisecond)
		for {
			list, err := c.Fetch(ctx, client.FetchOptions{Topics: []client.FetchTopic{{Topic: "notify"}}, Lease: time.Minute, NoWait: true})
			if err != nil {
				break
			}
			list[0].Ack(ctx)
		}
	}
}

// fillShop fills Redis with a shop's jobs, and keeps handling some of them.
func fillShop(t *testing.T, addr string) {
	t.Helper()
	c, err := client.OpenPool(client.PoolOptions{Addr: addr})
	check(t, err)
	t.Cleanup(func() { c.Close() })
	ctx, cancel := context.WithCancel(context.Background())
	var working sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		working.Wait()
	})
	push := func(topic, id, body string, delay time.Duration, o ...client.PushOption) {
		t.Helper()
		_, err := c.Push(ctx, client.Message{ID: id, Topic: topic, Body: body}, delay, o...)
		check(t, err)
	}
	for n := range 1200 {
		order := fmt.Sprintf(`{"order":%d,"user":{"id":%d,"name":"王小明"},"total":"%d.90"}`, 1000+n, 77000+n, n%300)
		push("close_order", fmt.Sprintf("close-order-%d", 1000+n), order, 30*time.Minute+time.Duration(n)*1500*time.Millisecond)
		push("rate_order", fmt.Sprintf("rate-order-%d", 400+n), order, 5*24*time.Hour-time.Duration(n)*5*time.Minute)
		if n%3 == 0 {
			push("remind_member", fmt.Sprintf("remind-%d", n), `{"member":"gold"}`, time.Duration(n)*20*time.Minute+time.Minute)
		}
	}
	for n := range 40 {
		push("rate_order", fmt.Sprintf("rate-now-%d", n), `{"order":1}`, 0)
	}
	causes := []string{"smtp: 550 no such mailbox", "smtp: 451 greylisted, try again later", "dial tcp: i/o timeout", "panic: runtime error: index out of range [3]\n\ngoroutine 42 [running]:\nshop/mail.render(0xc00012)\n\t/src/mail/render.go:57 +0x1d"}
	for n := range 17 {
		push("send_mail", fmt.Sprintf("mail-%d", n), fmt.Sprintf(`{"to":"user%d@example.com","template":"welcome"}`, n), 0, client.JobOptions{MaxAttempts: 1})
		d, err := c.Reserve(ctx, time.Minute, "send_mail")
		check(t, err)
		d.Retry(ctx, time.Second, fmt.Errorf("%s", strings.Replace(causes[n*5/4%len(causes)], "42", fmt.Sprint(42+n), 1)))
	}
	for n := range 6 {
		push("close_order", fmt.Sprintf("close-now-%d", n), `{"order":2}`, 0)
		_, err := c.Reserve(ctx, time.Hour, "close_order")
		check(t, err)
	}
	check(t, c.Pause(ctx, "remind_member", client.PauseOptions{For: 2 * time.Hour, Note: "Eve: the new texts are not translated yet"}))
	check(t, c.SetLimit(ctx, "rate_order", client.Limit{Concurrency: 2, Rate: 10, Burst: 5}))
	for range 2 {
		_, err := c.Reserve(ctx, time.Hour, "rate_order")
		check(t, err)
	}
	fillSchedules(t, c)
	fillHour(t, addr)
	working.Go(func() { c.Reserve(ctx, time.Minute, "close_order", "report", "clean_up") })
	working.Go(func() { notify(ctx, c) })
}
