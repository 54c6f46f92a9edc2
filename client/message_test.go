package client_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/mix-basic/delayer/client"
)

// FuzzMessage: any bytes survive push, get and pop.
func FuzzMessage(f *testing.F) {
	for _, m := range [][3]string{
		{"4b91", "close_order", `{"action":"close"}`},
		{"", "t", "b"},
		{"a", "", "b"},
		{"a", "t", ""},
		{"\x00\r\n\xff", "*{}:\r\n", "\r\n$5\r\n"},
		{"job_pool", "job_bucket:a", "%s %d"},
		{"日本語", "主题", strings.Repeat("x", 100_000)},
		{"1e3", "nil", "-0.0"},
	} {
		f.Add(m[0], m[1], m[2])
	}
	r := start(f)
	f.Fuzz(func(t *testing.T, id, topic, body string) {
		m := client.Message{ID: id, Topic: topic, Body: body}
		pushed, err := r.Push(t.Context(), m, 0)
		if topic == "" || body == "" {
			if !errors.Is(err, client.ErrInvalid) {
				t.Errorf("error %v, want ErrInvalid", err)
			}
			return
		}
		check(t, err)
		if id == "" {
			m.ID = pushed
		}
		if pushed != m.ID {
			t.Errorf("pushed as %q", pushed)
		}
		if job, err := r.Get(t.Context(), m.ID); err != nil || !reflect.DeepEqual(job.Message, m) || job.State != client.Ready {
			t.Errorf("Get = %+v, %v", job, err)
		}
		if got, err := r.Pop(t.Context(), topic); err != nil || !reflect.DeepEqual(got, m) {
			t.Errorf("Pop = %v, %v", got, err)
		}
		r.with(t).Expect(state{})
	})
}
