package e2e

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"testing"

	"github.com/chromedp/chromedp"
)

// The dashboard works behind a path of a reverse proxy, also for a topic and an ID of any bytes.
func TestBehindAPath(t *testing.T) {
	p := openPage(t, "")
	daemon, err := url.Parse(p.url)
	check(t, err)
	const path = "/tools/jobs"
	proxy := httptest.NewServer(http.StripPrefix(path, httputil.NewSingleHostReverseProxy(daemon)))
	t.Cleanup(proxy.Close)
	p.url = proxy.URL + path
	const topic, id = "a b/%41?&ä", "../1\xff\r\n%zz+" // a form can't carry the bytes of the ID
	for n := range 60 {
		p.redis.Do("ZADD", "delayer:topics", n, n)
	}

	p.open("/")
	p.until("the overview is live", `document.querySelector(".u-wrap")`, func() {})
	p.click(`#lang [lang=zh]`)
	p.click(`nav a[href="ui/push"]`)
	p.says("h1", "推送任务")
	p.click(`#lang [lang=en]`)
	p.click(`#theme a:last-of-type`)
	if got := p.eval("document.documentElement.dataset.theme + getComputedStyle(document.querySelector('header')).display"); got != "darkflex" {
		t.Errorf("the theme and style are %s", got)
	}
	p.do(chromedp.Click(".skip", chromedp.ByQuery, chromedp.NodeVisible)) // stays on the page
	p.fill("[name=topic]", topic)
	p.fill("[name=body]", "hello")
	p.click("[data-do=push]")
	p.says("#done", "The job was pushed.")
	p.fill("[name=delay]", "tomorrow")
	p.click("[data-do=reschedule]")
	p.shows("#problem", "tomorrow")
	p.click(".crumbs a")
	if got, want := p.eval("location.search"), "?topic="+escaped(topic); got != want {
		t.Errorf("the topic's page is %s, want %s", got, want)
	}
	p.shows("#jobs", "hello")
	p.click("[data-do=purge]")
	p.click("#cancel")
	p.click("[data-do=purge]")
	p.click("button[data-do=purge]")
	p.says("#done", "Ready jobs deleted: 1")

	p.openUntil("/ui/topics", `document.querySelector("#next")`)
	p.click("#next")
	p.shows("#range", "51 to 61 of 61")
	p.fill("#filter [name=q]", "59")
	p.click("#filter button")
	p.shows("#range", "1 to 1 of 1")

	requeueDead(p, topic, id)
}

// requeueDead finds a dead letter of the topic, requeues it, and removes it.
func requeueDead(p page, topic, id string) {
	p.redis.Do("HSET", "delayer:job_bucket:"+id, "id", id, "topic", topic, "body", "bytes")
	p.redis.Do("RPUSH", "delayer:ready_queue:"+topic, id)
	delivery := p.reserve(topic)
	delivery["id"] = id
	p.bury(delivery, "no such order")
	p.open("/ui/dead")
	p.click("#dead-topics a[data-topic]")
	p.fill("#search [name=q]", "such")
	p.click("#search button")
	p.click("#letters a[data-job]")
	p.shows("#id", "../1", `\xff`)
	p.click("[data-do=requeue]")
	p.says("#state", "Ready")
	p.click("[data-do=remove]")
	p.click("button[data-do=remove]")
	p.shows("#not-found", "No job has this ID")
}
