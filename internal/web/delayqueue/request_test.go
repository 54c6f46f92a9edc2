package delayqueue

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/mix-basic/delayer/internal/web"
)

// field is the body of a push with one field replaced.
func field(name, value string) string {
	fields := map[string]string{"topic": `"t"`, "id": `"a"`, "delay": "60", "ttr": "60", "body": `"b"`}
	fields[name] = value
	text := ""
	for _, name := range []string{"topic", "id", "delay", "ttr", "body"} {
		if fields[name] != "" {
			text += fmt.Sprintf(",%q:%s", name, fields[name])
		}
	}
	return "{" + strings.TrimPrefix(text, ",") + "}"
}

func TestComplaints(t *testing.T) {
	f := start(t, setup{Options: Options{MaxBody: 16 << 10}})
	long := func(n int) string { return `"` + strings.Repeat("x", n) + `"` }
	for _, c := range []struct {
		path, body string
		want       []string
	}{
		{"/push", field("id", ""), []string{"job id不能为空", "id must not be empty"}},
		{"/push", field("id", `" \t\n\u3000 "`), []string{"job id不能为空", "id must"}},
		{"/push", field("id", "1"), []string{"解析json失败", "id 应为字符串", "id must be a string"}},
		{"/push", field("id", long(4097)), []string{"添加失败", "invalid id", "4096"}},
		{"/push", field("topic", ""), []string{"topic 不能为空", "topic must not be empty"}},
		{"/push", field("topic", `" "`), []string{"topic 不能为空", "topic must"}},
		{"/push", field("topic", long(1025)), []string{"添加失败", "invalid topic", "1024"}},
		{"/push", field("delay", ""), []string{"delay 取值范围1 - (2^31 - 1)", "delay must be from 1 to 2147483647"}},
		{"/push", field("delay", "0"), []string{"delay 取值范围1 - (2^31 - 1)", "delay must"}},
		{"/push", field("delay", "2147483648"), []string{"delay 取值范围1 - (2^31 - 1)", "delay must"}},
		{"/push", field("delay", "1.5"), []string{"解析json失败", "delay 应为整数", "delay must be an integer"}},
		{"/push", field("delay", `"5"`), []string{"解析json失败", "delay 应为整数", "delay must be an integer"}},
		{"/push", field("delay", strings.Repeat("9", 9000)), []string{"解析json失败", "delay 应为整数", "delay must be an integer"}},
		{"/push", field("ttr", ""), []string{"ttr 取值范围1 - 86400", "ttr must be from 1 to 86400"}},
		{"/push", field("ttr", "86401"), []string{"ttr 取值范围1 - 86400", "ttr must"}},
		{"/push", field("body", `{"a":1}`), []string{"解析json失败", "body 应为字符串", "body must be a string"}},
		{"/push", field("body", long(16<<10)), []string{"读取request body失败", "超过 16384 字节", "the request's body must have 16384 bytes at most"}},
		{"/push", field("body", "\"a\nb\""), []string{"解析json失败", "not JSON"}},
		{"/push", `[]`, []string{"解析json失败", "请求体应为对象", "must be a JSON object"}},
		{"/push", `null`, []string{"job id不能为空", "id must"}},
		{"/push", ``, []string{"解析json失败", "not JSON"}},
		{"/push", `{"x":` + strings.Repeat("[", 11<<10), []string{"解析json失败", "not JSON"}},
		{"/pop", `{}`, []string{"topic不能为空", "topic must not be empty"}},
		{"/pop", `{"topic":" , ,"}`, []string{"topic不能为空", "topic must"}},
		{"/pop", `{"topic":` + long(1025) + `}`, []string{"topic 超过 1024 字节", "a topic must have 1024 bytes at most"}},
		{"/pop", `{"topic":"` + many(257) + `"}`, []string{"topic 超过 256 个", "256 topics at most"}},
		{"/delete", `{}`, []string{"job id不能为空", "id must not be empty"}},
		{"/get", `{"ID":""}`, []string{"job id不能为空", "id must not be empty"}},
	} {
		t.Run(fmt.Sprintf("%s %.60s", c.path, c.body), func(t *testing.T) {
			r := f.with(t).call(c.path, c.body)
			r.fails(t, c.want...)
			if len(r.Message) > 300 || !utf8.ValidString(r.Message) {
				t.Errorf("message %.400q", r.Message)
			}
		})
	}
	if jobs := f.redis.Do("KEYS", "delayer:job_*").([]any); len(jobs) > 0 {
		t.Errorf("Redis has %s", jobs)
	}
}

func many(topics int) string {
	var list []string
	for n := range topics {
		list = append(list, fmt.Sprint(n))
	}
	return strings.Join(list, ",")
}

// Everything that delay-queue accepts is accepted.
func TestAccepted(t *testing.T) {
	f := start(t, setup{})
	whole := `"delay":60,"ttr":60,"body":"b"`
	for _, c := range []struct{ body, id, topic, content string }{
		{field("delay", "2147483647"), "a", "t", "b"},
		{field("ttr", "1"), "a", "t", "b"},
		{field("body", ""), "a", "t", ""},
		{field("id", `" a b "`), "a b", "t", "b"},
		{field("topic", `"\u3000订单 "`), "a", "订单", "b"},
		{field("body", `"  中文 \u4e2d\ud83d\ude00 "`), "a", "t", "中文 中😀"},
		{field("body", "\"a\xff\xfeb\""), "a", "t", "a��b"},
		{field("body", `"\u0000\u0001<script>"`), "a", "t", "\x00\x01<script>"},
		{`{"Topic":"t","ID":"a","unknown":[{}],"id":"b",` + whole + `}`, "b", "t", "b"},
		{" \r\n{\"topic\":\"t\",\"id\":\"a\"," + whole + "}\n ", "a", "t", "b"},
		{`{"x":` + strings.Repeat("[", 9000) + strings.Repeat("]", 9000) + `,"topic":"t","id":"a",` + whole + `}`, "a", "t", "b"},
		{field("body", `"`+strings.Repeat("x", 1<<20-100)+`"`), "a", "t", strings.Repeat("x", 1<<20-100)},
	} {
		t.Run(fmt.Sprintf("%.60s", c.body), func(t *testing.T) {
			f := f.with(t)
			f.call("/push", c.body).expect(t, pushed, "null")
			if got, err := f.client.Get(t.Context(), c.id); err != nil || got.Topic != c.topic || got.Body != c.content {
				t.Errorf("stored is %.200q of %q, %v; want %.200q of %q", got.Body, got.Topic, err, c.content, c.topic)
			}
			f.call("/delete", fmt.Sprintf(`{"id":%q}`, " "+c.id)).expect(t, done, "null")
			if _, err := f.client.Get(t.Context(), c.id); err == nil {
				t.Error("it was not deleted")
			}
		})
	}
}

// Any method is accepted, as in delay-queue.
func TestMethods(t *testing.T) {
	f := start(t, setup{})
	for n, method := range []string{"GET", "PUT", "DELETE", "OPTIONS", "PATCH", "WHATEVER"} {
		for _, c := range []struct{ path, body, message string }{
			{"/push", `{"topic":"t","id":"%d","delay":60,"ttr":60,"body":"b"}`, pushed},
			{"/get", `{"id":"%d"}`, done},
			{"/delete", `{"id":"%d"}`, done},
		} {
			if r := f.read(f.send(method, c.path, fmt.Sprintf(c.body, n), "")); r.Code != 0 || r.Message != c.message || (c.path == "/get") == (string(r.Data) == "null") {
				t.Errorf("%s %s: %+v", method, c.path, r)
			}
		}
	}
}

// A request that is not admitted gets its HTTP status and a body that delay-queue's clients can read.
func TestRefused(t *testing.T) {
	f := start(t, setup{web: web.Options{Token: "secret", ReadOnly: true}})
	for _, c := range []struct {
		path, token string
		status      int
		want        []string
	}{
		{"/pop", "", http.StatusUnauthorized, []string{"未授权", "not authorized"}},
		{"/get", "wrong", http.StatusUnauthorized, []string{"未授权", "not authorized"}},
		{"/pop", "secret", http.StatusForbidden, []string{"拒绝访问", "read_only"}},
		{"/get", "secret", http.StatusOK, []string{"job id不能为空"}},
	} {
		response := f.send("POST", c.path, "{}", c.token)
		if response.StatusCode != c.status {
			t.Errorf("%s: %s, want %d", c.path, response.Status, c.status)
		}
		response.StatusCode = http.StatusOK
		f.read(response).fails(t, c.want...)
	}
}

// A waiting request keeps its topics in memory, but not its whole body.
func TestTopicsHoldNoMore(t *testing.T) {
	body := []byte(`{"topic":"t` + strings.Repeat(" ,", 250_000) + `u"}`)
	held := make([][]string, 20)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range held {
		held[i], _ = readTopics(body)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if n := int64(after.HeapAlloc) - int64(before.HeapAlloc); n > 1<<20 {
		t.Errorf("%d requests for %q hold %d bytes", len(held), held[0], n)
	}
}

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
