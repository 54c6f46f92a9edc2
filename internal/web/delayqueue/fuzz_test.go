package delayqueue

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"unicode/utf8"
)

// Any request is either within the limits or refused with a printable message.
func FuzzRequests(f *testing.F) {
	for _, seed := range []string{
		field("delay", "1"), field("delay", "1e3"), field("ttr", `"5"`), field("body", "\"\xff中文\\ud800\""), field("id", `"\u0000 a"`),
		`{"topic":"a, b,,a"}`, `{"topic":",`, `{"id":" a "}`, `{"ID":null,"iD":"b"}`, `[`, ``, `null`, "\ufeff{}", strings.Repeat("[", 100),
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		check := func(what, complaint string, fine bool) {
			t.Helper()
			if complaint == "" && !fine {
				t.Errorf("%s: %q is accepted", what, body)
			}
			if !utf8.ValidString(complaint) || len(complaint) > 300 {
				t.Errorf("%s: complaint %.400q", what, complaint)
			}
		}
		trimmed := func(s string, max int) bool {
			return s != "" && s == strings.TrimSpace(s) && utf8.ValidString(s) && (max == 0 || len(s) <= max)
		}
		j, complaint := readJob(body)
		check("push", complaint, trimmed(j.ID, 0) && trimmed(j.Topic, 0) && trimmed(j.Body, 0) &&
			j.Delay >= 1 && j.Delay <= 1<<31-1 && j.TTR >= 1 && j.TTR <= 86400 && json.Valid(body))
		id, complaint := readID(body)
		check("get", complaint, trimmed(id, 0) && json.Valid(body))
		topics, complaint := readTopics(body)
		check("pop", complaint, len(topics) >= 1 && len(topics) <= maxTopics && json.Valid(body))
		seen := map[string]bool{}
		for _, topic := range topics {
			if !trimmed(topic, maxTopic) || strings.Contains(topic, ",") || seen[topic] {
				t.Errorf("topics %q of %q", topics, body)
			}
			seen[topic] = true
		}
		if complaint == "" {
			return
		}
		w := httptest.NewRecorder()
		failure(complaint).write(w, http.StatusOK)
		var answered reply
		if err := json.Unmarshal(w.Body.Bytes(), &answered); err != nil || answered.Message != complaint {
			t.Errorf("answered is %+v, %v", answered, err)
		}
	})
}
