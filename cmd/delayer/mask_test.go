package main

import (
	"testing"

	"github.com/mix-basic/delayer/config"
	"github.com/mix-basic/delayer/internal/view"
)

// What helps stays readable: our words, numbers, addresses, known names. Everything that could be an ID, a body or a secret goes.
func TestMask(t *testing.T) {
	c := config.Default()
	c.Redis.Password, c.HTTP.Token, c.HTTP.Users = "pass/word", "token-of-16-bytes", []config.User{{Name: "alice", Password: "abc"}}
	m := newMask(c, false)
	m.know("mail-2", "/var/log/delayer/error.log", "10.0.0.1:6379", "")
	for text, want := range map[string]string{
		"Service started successfully, PID: 4711":                           "Service started successfully, PID: 4711",
		"Redis does not work for us: still, for 1m0s, 60 more times: EOF":   "Redis does not work for us: still, for 1m0s, 60 more times: EOF",
		"dial tcp 127.0.0.1:6379: connect: connection refused":              "dial tcp 127.0.0.1:6379: connect: connection refused",
		"read tcp [::1]:80->[::1]:6379: i/o timeout":                        "read tcp [::(…): i/o timeout",
		"open /var/log/delayer/error.log: permission denied":                "open /var/log/delayer/error.log: permission denied",
		"open /home/x9/error.log: permission denied":                        "open (…): permission denied",
		"NOPERM this user has no permissions to run the 'info' command":     "NOPERM this user has no permissions to run the info command",
		"want +evalsha +config|get, &delayer:* and ~*":                      "want +evalsha +config|get, (…) and ~*",
		"WRONGTYPE at delayer:ready_queue:mail-2, delayer:{3}:job_bucket:7": "WRONGTYPE at delayer:ready_queue:(…), delayer:{3}:job_bucket:(…)",
		"other:job_bucket:id1 is there":                                     "(…) is there",
		`topic "mail-2": job "order-1" and "a\"b" of mail-2`:                `topic "mail-2": job "(…)" and "(…)" of mail-2`,
		`get "a" b": c"d`: `get "(…)" b(…)`,
		"Job is ready, Topic: mail, IDs: [a,b],c], Partition: 3":               "Job is ready, Topic: mail, IDs: [(…)], Partition: 3",
		"the number 2018101712978956648885474 and 0f3c-4d and 90 % of 1.5GB":   "the number (…) and (…) and 90 % of 1.5GB",
		"redis://u:pass/word@h:1 refuses token-of-16-bytes, pass%2Fword":       "(…) refuses (secret), (secret)",
		"in the last hour: 12, the slowest EVALSHA with 20.4ms since 10:00:00": "in the last hour: 12, the slowest EVALSHA with 20.4ms since 10:00:00",
		"": "",
	} {
		if got := m.text(text); got != want {
			t.Errorf("%q:\ngot  %q\nwant %q", text, got, want)
		}
	}
	whole := newMask(c, true)
	text := `job "a" of redis://u:pass/word@h:1/?x=1 with token-of-16-bytes, pass%2Fword, abc`
	if got, want := whole.text(text), `job "a" of redis://(secret)@h:1/?x=1 with (secret), (secret), abc`; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	o := view.Of("topic", "mail", "paused", view.Of("note", "a b"), "list", []view.Object{view.Of("error", "at x1", "note_base64", []byte("a"))})
	if got, want := string(view.Encode(m.object(o))), `{"topic":"mail","paused":{"note":"(…)"},"list":[{"error":"at (…)","note":"(…)"}]}`+"\n"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
