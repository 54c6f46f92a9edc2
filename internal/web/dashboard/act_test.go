package dashboard

import (
	"fmt"
	"html"
	"net/http"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mix-basic/delayer/internal/testing/redistest"
	"github.com/mix-basic/delayer/internal/web"
)

// seed creates a topic with a job in each state.
func (f *fixture) seed() {
	f.TB.Helper()
	f.Do("FLUSHALL")
	f.push("topic", "waiting", "body", time.Hour)
	f.push("topic", "reserved", "body", 0)
	f.reserve("topic")
	f.bury("topic", "dead1", "body", "reason", "refused")
	f.bury("topic", "dead2", "body", "reason", "no customer")
	f.bury("topic", "dead3", "body", "reason", "refused")
	f.push("topic", "ready1", "body", 0)
	f.push("topic", "ready2", "body", 0)
	f.push("other", "ready3", "body", 0)
}

// summary describes the contents of seed's topics.
func (f *fixture) summary() string {
	f.TB.Helper()
	s := f.State()
	return fmt.Sprint("pool", s.Pool, " reserved", s.Reserved, " ready", s.Ready["topic"], s.Ready["other"], " dead", s.Dead["topic"], len(s.Letters), " buckets", len(s.Buckets))
}

// TestActions performs each action by POST and follows it to the page that reports it.
func TestActions(t *testing.T) {
	f := start(t, web.Options{})
	for _, c := range []struct {
		name, action string
		form         []string
		to, says     string // redirect, and text on that page
		want         string // the summary afterwards
	}{
		{"remove", "remove", []string{"id", "waiting"}, "/ui/job", "The job was removed",
			"pool[] reserved[reserved] ready[ready1 ready2] [ready3] dead[dead1 dead2 dead3] 3 buckets4"},
		{"remove what is gone", "remove", []string{"id", "gone"}, "/ui/job", "nothing left to do",
			"pool[waiting] reserved[reserved] ready[ready1 ready2] [ready3] dead[dead1 dead2 dead3] 3 buckets5"},
		{"deliver a waiting job", "deliver", []string{"id", "waiting"}, "/ui/job", "The job is ready",
			"pool[] reserved[reserved] ready[ready1 ready2 waiting] [ready3] dead[dead1 dead2 dead3] 3 buckets5"},
		{"reschedule", "reschedule", []string{"id", "ready1", "delay", "2h"}, "/ui/job", "new due time",
			"pool[waiting ready1] reserved[reserved] ready[ready2] [ready3] dead[dead1 dead2 dead3] 3 buckets5"},
		{"requeue", "requeue", []string{"id", "dead2"}, "/ui/job", "ready job again",
			"pool[waiting] reserved[reserved] ready[ready1 ready2 dead2] [ready3] dead[dead1 dead3] 2 buckets6"},
		{"drop", "drop", []string{"id", "dead2", "topic", "topic"}, "/ui/dead/topic", "was dropped",
			"pool[waiting] reserved[reserved] ready[ready1 ready2] [ready3] dead[dead1 dead3] 2 buckets5"},
		{"purge", "purge", []string{"topic", "topic"}, "/ui/topic", "Ready jobs deleted: 2",
			"pool[waiting] reserved[reserved] ready[] [ready3] dead[dead1 dead2 dead3] 3 buckets3"},
		{"pause", "pause", []string{"topic", "topic", "for", "2h", "note", "ask Eve"}, "/ui/topic", "The topic is paused",
			"pool[waiting] reserved[reserved] ready[] [ready3] dead[dead1 dead2 dead3] 3 buckets5"},
		{"resume what is not paused", "resume", []string{"topic", "topic"}, "/ui/topic", "nothing left to do",
			"pool[waiting] reserved[reserved] ready[ready1 ready2] [ready3] dead[dead1 dead2 dead3] 3 buckets5"},
		{"requeue a group", "requeue_dead", []string{"topic", "topic", "group", "1", "reason", "reason", "error", "refused"}, "/ui/dead/topic", "requeued: 2",
			"pool[waiting] reserved[reserved] ready[ready1 ready2 dead1 dead3] [ready3] dead[dead2] 1 buckets7"},
		{"requeue all", "requeue_dead", []string{"topic", "topic"}, "/ui/dead/topic", "requeued: 3",
			"pool[waiting] reserved[reserved] ready[ready1 ready2 dead1 dead2 dead3] [ready3] dead[] 0 buckets8"},
		{"drop a group", "drop_dead", []string{"topic", "topic", "group", "1", "reason", "reason", "error", "no customer"}, "/ui/dead/topic", "Dead letters dropped: 1",
			"pool[waiting] reserved[reserved] ready[ready1 ready2] [ready3] dead[dead1 dead3] 2 buckets5"},
		{"requeue selected", "requeue_selected", []string{"topic", "topic", "selected", "dead1", "sure", "1"}, "/ui/dead/topic", "requeued: 1",
			"pool[waiting] reserved[reserved] ready[ready1 ready2 dead1] [ready3] dead[dead2 dead3] 2 buckets6"},
		{"drop selected", "drop_selected", []string{"topic", "topic", "selected", "dead2", "sure", "1"}, "/ui/dead/topic", "Dead letters dropped: 1",
			"pool[waiting] reserved[reserved] ready[ready1 ready2] [ready3] dead[dead1 dead3] 2 buckets5"},
		{"drop all", "drop_dead", []string{"topic", "topic"}, "/ui/dead/topic", "Dead letters dropped: 3",
			"pool[waiting] reserved[reserved] ready[ready1 ready2] [ready3] dead[] 0 buckets5"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f.seed()
			got := f.post("/ui/act/"+c.action, c.form...)
			got.has(t, c.name, http.StatusSeeOther)
			to := got.header.Get("Location")
			if at, _, _ := strings.Cut(to, "?"); at != c.to {
				t.Fatalf("leads to %q, want %q", to, c.to)
			}
			page := f.follow(got)
			checkPage(t, "en", to, page)
			page.has(t, to, page.status, `id="done"`, c.says)
			if got := f.summary(); got != c.want {
				t.Errorf("there is\n%s, want\n%s", got, c.want)
			}
		})
	}
}

// TestSelected ticks dead letters like a browser without scripts. After a confirmation only the
// ticked letters are affected, and a letter that can't be requeued does not stop the others.
func TestSelected(t *testing.T) {
	f := start(t, web.Options{})
	f.seed()
	before := f.State()
	page := f.get(link("/ui/dead/topic", "topic", "topic"))
	for _, id := range []string{"dead1", "dead2", "dead3"} {
		page.has(t, "the page", http.StatusOK, `form="selection" name="selected*" value="`+pack(id)+`"`)
	}
	tick := func(action string, ids ...string) response {
		form := url.Values{"topic": {pack("topic")}}
		for _, id := range ids {
			form.Add("selected", pack(id))
		}
		return f.form("/ui/act/"+action, form)
	}
	for _, action := range []string{"requeue_selected", "drop_selected"} {
		asked := tick(action, "dead1", "dead3")
		checkPage(t, "en", action, asked)
		asked.has(t, action, http.StatusOK, `id="confirm"`, `data-count="2"`, "dead1", "dead3", `name="sure" value="1"`)
		none := tick(action)
		checkPage(t, "en", action, none)
		none.has(t, "none is ticked", http.StatusBadRequest, `id="problem"`, "is selected", `id="letters"`)
		f.get("/ui/act/"+action+"?topic="+pack("topic")+"&sure=1&selected="+pack("dead1")).has(t, "a link", http.StatusNotFound)
		f.form("/ui/act/"+action, url.Values{"topic": {pack("topic")}, "selected*": {"%"}}).has(t, "not percent-encoded", http.StatusBadRequest)
		f.form("/ui/act/"+action, url.Values{"topic": {pack("topic")}, "selected": slices.Repeat([]string{"YQ"}, maxSelected+1)}).has(t, "too many", http.StatusBadRequest, "1,000")
	}
	f.Expect(before)
	f.push("topic", "dead1", "body", time.Hour) // blocks its requeue
	form := url.Values{"topic": {pack("topic")}, "sure": {"1"}, "selected": {pack("dead1"), pack("gone"), pack("dead3")}}
	got := f.form("/ui/act/requeue_selected", form)
	checkPage(t, "en", "requeue", got)
	got.has(t, "requeue", http.StatusConflict, `id="partly"`, "requeued: 1", "dead1")
	if s := f.State(); !reflect.DeepEqual(s.Dead["topic"], []string{"dead1", "dead2"}) || s.Ready["topic"][2] != "dead3" {
		t.Errorf("dead are %v, ready %v", s.Dead, s.Ready)
	}
}

// TestConfirmation shows the count and changes nothing.
func TestConfirmation(t *testing.T) {
	f := start(t, web.Options{})
	f.seed()
	before := f.State()
	for _, c := range []struct {
		path  string
		count string
	}{
		{link("/ui/act/purge", "topic", "topic"), "2"},
		{link("/ui/act/purge", "topic", "unknown"), "0"},
		{link("/ui/act/drop_dead", "topic", "topic"), "3"},
		{link("/ui/act/requeue_dead", "topic", "topic", "group", "1", "reason", "reason", "error", "refused"), "2"},
		// An incomplete group never means all dead letters.
		{link("/ui/act/requeue_dead", "topic", "topic", "group", "1"), "0"},
		{link("/ui/act/requeue_dead", "topic", "topic", "error", "refused"), "0"},
		{link("/ui/act/drop", "topic", "topic", "id", "dead1"), ""},
		{link("/ui/act/remove", "id", "waiting"), ""},
	} {
		got := f.get(c.path)
		got.has(t, c.path, http.StatusOK, `id="confirm"`, `<form method="post"`)
		if c.count != "" {
			got.has(t, c.path, http.StatusOK, `data-count="`+c.count+`"`)
		}
	}
	// Actions without confirmation have no such page.
	for _, path := range []string{"/ui/act/deliver", "/ui/act/requeue", "/ui/act/reschedule"} {
		f.get(link(path, "id", "waiting", "delay", "5")).has(t, path, http.StatusNotFound)
	}
	f.Expect(before)
}

// TestWrong checks that invalid actions are reported and change nothing.
func TestWrong(t *testing.T) {
	f := start(t, web.Options{})
	f.seed()
	f.push("topic", "dead1", "body", time.Hour) // blocks the dead letter's requeue
	before := f.State()
	for _, c := range []struct {
		name, path string
		form       []string
		status     int
		says       string
	}{
		{"no ID", "/ui/act/remove", nil, 400, "ID is missing"},
		{"no topic", "/ui/act/purge", nil, 400, "Topic is missing"},
		{"no delay", "/ui/act/reschedule", []string{"id", "waiting"}, 400, "delay"},
		{"a negative delay", "/ui/act/reschedule", []string{"id", "waiting", "delay", "-5m"}, 400, "-5m"},
		{"a delay that is none", "/ui/act/reschedule", []string{"id", "waiting", "delay", "<b>"}, 400, "&lt;b&gt;"},
		{"a pause of no topic", "/ui/act/pause", nil, 400, "Topic is missing"},
		{"a time that is none", "/ui/act/pause", []string{"topic", "topic", "for", "<b>"}, 400, "&lt;b&gt;"},
		{"a pause for no time", "/ui/act/pause", []string{"topic", "topic", "for", "0"}, 400, "above 0 and up to 100 years; leave it empty"},
		{"a note that is too long", "/ui/act/pause", []string{"topic", "topic", "note", strings.Repeat("n", 1001)}, 400, "at most 1,000 bytes"},
		{"no such job", "/ui/act/deliver", []string{"id", "nobody"}, 404, "No job has this ID"},
		{"no such dead letter", "/ui/act/requeue", []string{"id", "waiting"}, 404, "No job has this ID"},
		{"a job is in the way", "/ui/act/requeue", []string{"id", "dead1"}, 409, "A job with this ID exists"},
		{"no such action", "/ui/act/flush", []string{"id", "waiting"}, 404, "No such page"},
	} {
		f.post(c.path, c.form...).has(t, c.name, c.status, c.says)
	}
	f.form("/ui/act/remove", url.Values{"id*": {"%"}}).has(t, "not percent-encoded", 400, "can&#39;t be read")
	f.send("POST", "/ui/act/remove", "id=%zz").has(t, "no form", 400)
	f.send("POST", "/ui/act/remove", strings.Repeat("x", maxForm+1)).has(t, "a form too large", http.StatusRequestEntityTooLarge)
	f.get(link("/ui/topic", "topic", "topic")+"&cursor=nonsense").has(t, "a cursor", 400)
	f.Expect(before)
}

// TestDoneIsSaidOnce reports an action once, and links made by others cannot forge a report.
func TestDoneIsSaidOnce(t *testing.T) {
	f := start(t, web.Options{})
	f.seed()
	for _, forged := range []string{"done=purge&n=999999", "done=push", "done=drop_dead&n=5"} {
		for _, path := range []string{link("/ui/topic", "topic", "topic") + "&" + forged, "/?" + forged, "/ui/topics?" + forged} {
			if body := f.get(path).body; strings.Contains(body, `id="done"`) || strings.Contains(body, "999,999") {
				t.Errorf("%s: a claim is shown", path)
			}
		}
	}
	got := f.post("/ui/act/purge", "topic", "topic")
	cookie, _, _ := strings.Cut(got.header.Get("Set-Cookie"), ";")
	if body := f.get(link("/ui/topic", "topic", "other"), "Cookie", cookie).body; strings.Contains(body, `id="done"`) {
		t.Error("another topic's page says it")
	}
	page := f.follow(got)
	page.has(t, "the page", http.StatusOK, "Ready jobs deleted: 2")
	if gone := page.header.Get("Set-Cookie"); !strings.HasPrefix(gone, flashCookie+"=;") || !strings.Contains(gone, "Max-Age=0") {
		t.Errorf("the cookie stays: %q", gone)
	}
	for _, bad := range []string{"", ".", "..", placeOf("ui/topics") + ".x.1", placeOf("ui/topics") + ".purge", "a.purge.1"} {
		if body := f.get("/ui/topics", "Cookie", flashCookie+"="+bad).body; strings.Contains(body, `id="done"`) {
			t.Errorf("the cookie %q is believed", bad)
		}
	}
}

// TestTroubleBesideTheForm keeps what was typed in, next to the error.
func TestTroubleBesideTheForm(t *testing.T) {
	r := redistest.Start(t)
	cutter := redistest.StartCutter(t, r.Addr)
	f := startOn(t, web.Options{}, r, cutter.Addr)
	f.seed()
	typed := func(id string) []string { return []string{"id", id, "delay", "<tomorrow>"} }
	got := f.post("/ui/act/reschedule", typed("waiting")...)
	checkPage(t, "en", "reschedule", got)
	got.has(t, "reschedule", http.StatusBadRequest, `id="problem"`, `data-state="waiting"`, `name="delay"`, `value="&lt;tomorrow&gt;"`)
	f.post("/ui/act/reschedule", "id", "gone", "delay", "5m").has(t, "a job that is gone", http.StatusNotFound, `id="not-found"`)

	for _, done := range []bool{true, false} {
		f.post("/ui/act/reschedule", "id", "waiting", "delay", "2h") // loads the script
		got = f.cut(cutter, done, f.seed, func() response { return f.post("/ui/act/reschedule", "id", "waiting", "delay", "0") })
		got.has(t, "a lost answer", http.StatusServiceUnavailable, "It is unknown whether this was done", `value="0"`)
		if ready := len(f.State().Ready["topic"]) == 3; ready != done {
			t.Errorf("done %v, ready %v", done, ready)
		}
	}
	f.seed()
	f.Do("ACL", "SETUSER", "default", "-lpop", "-rpop")
	got = f.post("/ui/act/purge", "topic", "topic", "most", "2")
	checkPage(t, "en", "purge", got)
	got.has(t, "purge", http.StatusBadGateway, `id="confirm"`, `id="problem"`, "Redis refused the request", `name="most" value="2"`)

	f = start(t, web.Options{})
	f.Kill()
	got = f.post("/ui/act/reschedule", "id", "waiting", "delay", "5m")
	if to := link("ui/job", "id", "waiting", "lang", "zh"); !strings.Contains(html.UnescapeString(got.body), to) {
		t.Errorf("no link to %s", to)
	}
	got.has(t, "no Redis", http.StatusServiceUnavailable, `value="5m"`, "Redis can&#39;t be reached", "Nothing was done")
	f.post("/ui/act/purge", "topic", "topic", "most", "2").has(t, "no Redis", http.StatusServiceUnavailable, `id="confirm"`, `name="most" value="2"`)
}

// TestReadOnly checks that there are no buttons, and that the server refuses POSTs.
func TestReadOnly(t *testing.T) {
	f := start(t, web.Options{ReadOnly: true})
	f.seed()
	before := f.State()
	for path := range f.crawlAll() {
		body := f.get(path).body
		for _, control := range []string{`method="post"`, "/ui/act/", `href="/ui/push`} {
			if strings.Contains(body, control) {
				t.Errorf("%s has %s", path, control)
			}
		}
	}
	f.get("/").has(t, "overview", http.StatusOK, `id="read-only"`)
	for name := range actions {
		got := f.post("/ui/act/"+name, "id", "waiting", "topic", "topic", "delay", "0")
		got.has(t, name, http.StatusForbidden, "<html")
		f.get(link("/ui/act/"+name, "id", "waiting", "topic", "topic")).has(t, name, http.StatusForbidden)
	}
	f.form("/ui/push", url.Values{"topic": {"topic"}, "body": {"body"}}).has(t, "push", http.StatusForbidden)
	f.Expect(before)
}

// TestRefused checks that actions without the token, or from pages of other sites, are refused.
func TestRefused(t *testing.T) {
	f := start(t, web.Options{Token: "secret"})
	f.seed()
	before := f.State()
	const bearer = "Bearer secret"
	for _, path := range []string{"/", "/ui/live.json", "/ui/topics", link("/ui/job", "id", "waiting"), link("/ui/body", "id", "waiting"), "/ui/static/dashboard.js", "/ui/push"} {
		got := f.get(path)
		got.has(t, path, http.StatusUnauthorized, "<html", "as the password")
		if got.header.Get("WWW-Authenticate") == "" || strings.Contains(got.body, "body-card") {
			t.Errorf("%s: %v %s", path, got.header, got.body)
		}
		f.get(path, "Authorization", bearer).has(t, path, http.StatusOK)
	}
	for name := range actions {
		_, form, _ := strings.Cut(link("", "id", "waiting", "topic", "topic", "delay", "0"), "?")
		f.send("POST", "/ui/act/"+name, form).has(t, name+" without the token", http.StatusUnauthorized)
		f.send("POST", "/ui/act/"+name, form, "Authorization", bearer, "Sec-Fetch-Site", "cross-site").has(t, name+" from another site", http.StatusForbidden)
		f.send("POST", "/ui/act/"+name, form, "Authorization", bearer, "Origin", "https://evil.example").has(t, name+" from another origin", http.StatusForbidden)
	}
	f.Expect(before)
}

// TestConfirmed applies the action only to the confirmed letters, not to letters that arrived while the
// confirmation was open.
func TestConfirmed(t *testing.T) {
	f := start(t, web.Options{})
	f.seed()
	f.confirmed(link("/ui/act/purge", "topic", "topic"), "2", func() { f.push("topic", "later", "body", 0) })
	if s := f.State(); !reflect.DeepEqual(s.Ready["topic"], []string{"later"}) {
		t.Errorf("left are %v", s.Ready)
	}
	f.Remove(t.Context(), "later")
	f.confirmed(link("/ui/act/drop_dead", "topic", "topic", "group", "1", "reason", "reason", "error", "refused"), "2", func() {
		f.bury("topic", "later", "body", "reason", "refused")
	})
	if s := f.State(); !reflect.DeepEqual(s.Dead["topic"], []string{"dead2", "later"}) {
		t.Errorf("left are %v", s.Dead)
	}
}

// confirmed calls meanwhile between the link's action and its confirmation.
func (f *fixture) confirmed(link, count string, meanwhile func()) {
	f.TB.Helper()
	got := f.get(link)
	got.has(f.TB, "the question", http.StatusOK, `data-count="`+count+`"`)
	meanwhile()
	form := url.Values{}
	for _, field := range regexp.MustCompile(`<input type="hidden" name="([^"]*)" value="([^"]*)">`).FindAllStringSubmatch(got.body, -1) {
		form.Set(field[1], field[2])
	}
	path, _, _ := strings.Cut(link, "?")
	f.form(path, form).has(f.TB, "the answer", http.StatusSeeOther)
}
