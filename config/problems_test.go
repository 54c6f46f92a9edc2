package config

import (
	"strings"
	"testing"
)

func TestProblemIsOneLine(t *testing.T) {
	p := Problem{File: "a\nb.conf", Line: 3, Key: "redis.\x1b[31mx", Message: "m"}
	if got, want := p.Error(), `"a\nb.conf":3: "redis.\x1b[31mx": m`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	p = Problem{File: "a.conf", Key: "redis.x", Message: "m", Warning: true}
	if got, want := p.Error(), "a.conf: warning: redis.x: m"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	_, err := loadText("[redis]\n" + strings.Repeat("x", 500) + " = 1")
	wantMessages(t, err, "f:2: warning: redis."+strings.Repeat("x", 60)+"…: unknown key: [redis] has "+redisKeys)
}
