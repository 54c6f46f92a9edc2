package e2e

import (
	"testing"
)

// barriers is a script that lists obstacles for users who can't see the page: headers, landmarks, fields and controls
// without a name, ambiguous landmarks, and broken references.
const barriers = `(() => {
  const found = [], seen = new Set();
  const name = e => (e.getAttribute("aria-label") || e.innerText || e.getAttribute("title") || (e.querySelector("img") || {alt: ""}).alt || "").trim();
  for (const th of document.querySelectorAll("th")) if (!th.closest(".uplot") && !th.textContent.trim()) found.push("an empty header in " + th.closest("table").id);
  for (const e of document.querySelectorAll("nav, main, [role=search], section[aria-label], [role=region]")) {
    const mark = (e.getAttribute("role") || e.localName) + " " + (e.getAttribute("aria-label") || "");
    if (e.localName !== "main" && !e.getAttribute("aria-label")) found.push("no label: " + e.outerHTML.slice(0, 80));
    if (seen.has(mark)) found.push("twice: " + mark);
    seen.add(mark);
  }
  for (const e of document.querySelectorAll("input:not([type=hidden]), textarea, select")) if (!e.labels.length && !e.getAttribute("aria-label")) found.push("no label: " + e.outerHTML.slice(0, 80));
  for (const e of document.querySelectorAll("a, button, summary")) if (e.checkVisibility() && !name(e)) found.push("no name: " + e.outerHTML.slice(0, 80));
  const ids = [...document.querySelectorAll("[id]")].map(e => e.id);
  ids.filter((id, i) => ids.indexOf(id) !== i).forEach(id => found.push("the id twice: " + id));
  for (const e of document.querySelectorAll("[aria-describedby]")) if (!document.getElementById(e.getAttribute("aria-describedby"))) found.push("described by nothing: " + e.outerHTML.slice(0, 80));
  for (const e of document.querySelectorAll("[aria-hidden=true]")) if (e.querySelector("a, button, input")) found.push("hidden, but has controls: " + e.outerHTML.slice(0, 80));
  if (document.querySelectorAll("h1").length !== 1) found.push("not one h1");
  return found.join("\n");
})()`

// Each page can be used with a screen reader.
func TestAccessible(t *testing.T) {
	p := openPage(t, "")
	fillShop(t, p.redis.Addr)
	for _, path := range []string{
		"/", "/ui/topics", "/ui/consumers", "/ui/schedules", "/ui/dead", "/ui/push", "/ui/find", "/ui/nowhere",
		"/ui/topic?state=waiting&topic=close_order", "/ui/topic?topic=remind_member", "/ui/topic?topic=rate_order",
		"/ui/dead/topic?topic=send_mail", job("close-order-1007"), "/ui/act/purge?topic=rate_order",
	} {
		p.open(path)
		if got := p.eval(barriers); got != "" {
			t.Errorf("%s: %s", path, got)
		}
	}
}
