package store

import (
	"fmt"
	"strings"
	"testing"
)

func TestBounds(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{CheckSize("123", 3), "<nil>"},
		{CheckSize("1234", 3), "it has 4 bytes: want 3 at most"},
		{CheckScheduleName("a b-ä@\x80"), "<nil>"},
		{CheckScheduleName(strings.Repeat("n", 200)), "<nil>"},
		{CheckScheduleName(strings.Repeat("n", 201)), "it has 201 bytes: want 200 at most"},
		{CheckScheduleName(""), "it is empty"},
		{CheckScheduleName("{"), "want no braces and no control characters"},
		{CheckScheduleName("\x1f"), "want no braces and no control characters"},
		{CheckScheduleTopic("t"), "<nil>"},
		{CheckScheduleTopic(""), "it is empty"},
		{CheckScheduleTopic(ScheduleTopic), "it is that of schedules"},
		{CheckScheduleTopic(strings.Repeat("t", 1025)), "it has 1025 bytes: want 1024 at most"},
	} {
		if got := fmt.Sprint(c.err); got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
}
