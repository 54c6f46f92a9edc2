package api

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

// decode never panics, accepts only valid JSON, and does not change what it accepts.
func FuzzDecode(f *testing.F) {
	for _, body := range []string{
		`{"topic":"t","body":"1","group":"k","group_max":3,"group_quiet":1,"group_longest":"1h"}`,
		`{"id":"a","topic":"t","body":"b","delay":"1h","due":"2030-01-01T00:00:00Z","max_attempts":1,"lease":1.5,"expire_after":"7d","if_exists":"refuse","once":"1d","debounce":60}`,
		`{"jobs":[{"id_base64":"/w==","topic":"t","body":"\ud83d\ude00"}]}`, `{"topics":["a"],"topics_base64":["YQ=="],"max":1,"lease":1e1}`,
		`{"deliveries":[{"id":"a","topic":"t","token":1}],"lease":1}`, `{"ids":["a"],"all":true,"reason":"r","before":"x"}`, `{"body":"\ud800\\"}`, "{\"a\":", "\xff",
	} {
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body string) {
		for _, r := range Routes {
			if r.Body == nil {
				continue
			}
			got, err := decode([]byte(body), r.Body)
			if err == nil && (!json.Valid([]byte(body)) || !utf8.ValidString(body)) {
				t.Fatalf("%s takes %q", r.Path, body)
			}
			if err != nil {
				json.Unmarshal(problemOf(err).answer().body, new(map[string]any))
				continue
			}
			if text, ok := got["body"].(string); ok {
				var same struct {
					Body   *string `json:"body"`
					Base64 *[]byte `json:"body_base64"`
				}
				check(t, json.Unmarshal([]byte(body), &same))
				if same.Body != nil && *same.Body != text || same.Base64 != nil && string(*same.Base64) != text || strings.Contains(text, "\ufffd") && !strings.Contains(strings.ToLower(body), `\ufffd`) && !strings.Contains(body, "\ufffd") {
					t.Fatalf("%q became %q", body, text)
				}
			}
		}
	})
}
