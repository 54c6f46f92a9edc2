package e2e

import (
	"strings"
	"testing"
)

// The dashboard can also act under a host name without TLS, where only Origin shows which site sent a
// form.
func TestUnderAName(t *testing.T) {
	p := openPage(t, "hosts = "+otherName+"\n")
	p.url = strings.Replace(p.url, "127.0.0.1", otherName, 1)
	p.open("/ui/push")
	p.fill("[name=topic]", "mail")
	p.fill("[name=body]", "hello")
	p.click("[data-do=push]")
	if at := p.eval("location.pathname"); at != "/ui/job" {
		t.Errorf("the form leads to %s: %s", at, p.text("body"))
	}
}
