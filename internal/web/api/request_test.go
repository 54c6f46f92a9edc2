package api

import (
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/testing/redistest"
	"github.com/mix-basic/delayer/internal/web"
)

// Invalid or ambiguous bodies change nothing, and the problem shows where they are wrong.
func TestBadBodies(t *testing.T) {
	f := start(t, web.Options{})
	job := func(fields string) string { return `{"id":"a","topic":"t","body":"b"` + fields + `}` }
	group := func(fields string) string {
		return `{"topic":"t","body":"1","group":"k","group_quiet":1` + fields + `}`
	}
	for body, want := range map[string]struct {
		kind          *kind
		field, detail string
	}{
		" ":                                   {badRequest, "", "empty"},
		"null":                                {badRequest, "", "want an object"},
		"{":                                   {badRequest, "", "incomplete"},
		job("") + "x":                         {badRequest, "", "after top-level value"},
		`{"topic":t}`:                         {badRequest, "/topic", "at byte 11"},
		"{\n\t\"id\": \"a\",\n\t\"x\" \"b\"}": {badRequest, "/x", "at byte 20"},
		job(`,"x":1`):                         {badRequest, "/x", "no such field"},
		job(`,"a/b~c":1`):                     {badRequest, "/a~1b~0c", "no such field"},
		job(`,"Delay":1`):                     {badRequest, "/Delay", "no such field"},
		job(`,"\u0069d":"b"`):                 {badRequest, "/id", "twice"},
		job(`,"id_base64":"YQ=="`):            {invalid, "/id_base64", "both forms"},
		job(",\"x\":\"\xff\""):                {badRequest, "/x", "not UTF-8"},
		`{"topic":"t","body":"\ud800"}`:       {invalid, "/body", "unpaired surrogate"},
		`{"topic":"t"}`:                       {invalid, "/body", "missing"},
		`{"body":"b"}`:                        {invalid, "/topic", "missing"},
		`{"topic":"","body":"b"}`:             {invalid, "/topic", "empty"},
		`{"topic":"t","body_base64":""}`:      {invalid, "/body_base64", "empty"},
		`{"topic":"t","body_base64":"YR=="}`:  {invalid, "/body_base64", "base64"},
		`{"topic":1,"body":"b"}`:              {invalid, "/topic", "want a text"},
		job(`,"delay":-1`):                    {invalid, "/delay", "from 0s"},
		job(`,"delay":3153600001`):            {invalid, "/delay", "to 100 years"},
		job(`,"delay":"soon"`):                {invalid, "/delay", "seconds"},
		job(`,"delay":true`):                  {invalid, "/delay", "seconds"},
		job(`,"due":1800000000`):              {invalid, "/due", "RFC 3339"},
		job(`,"due":"2300-01-01T00:00:00Z"`):  {invalid, "/due", "within 100 years"},
		job(`,"due":"2030-01-01T00:00:00Z","delay":0`):         {invalid, "/due", "one of the two"},
		job(`,"max_attempts":0`):                               {invalid, "/max_attempts", "from 1"},
		job(`,"max_attempts":1.5`):                             {invalid, "/max_attempts", "whole"},
		job(`,"max_attempts":1e999999999`):                     {invalid, "/max_attempts", "whole"},
		job(`,"max_attempts":2147483648`):                      {invalid, "/max_attempts", "2147483647"},
		job(`,"lease":0`):                                      {invalid, "/lease", "1ms"},
		job(`,"lease":"25h"`):                                  {invalid, "/lease", "24h"},
		job(`,"expire_after":0`):                               {invalid, "/expire_after", "1ms"},
		job(`,"once":0`):                                       {invalid, "/once", "from 1ms to 100 years"},
		job(`,"replicas":0`):                                   {invalid, "/replicas", "1 to 100"},
		job(`,"replicas":1,"replicas_timeout":0`):              {invalid, "/replicas_timeout", "from 1ms to 10s"},
		job(`,"replicas_timeout":1`):                           {invalid, "/replicas_timeout", "nothing without replicas"},
		job(`,"debounce":"soon"`):                              {invalid, "/debounce", "from 1ms to 100 years"},
		job(`,"once":1,"if_exists":"refuse"`):                  {invalid, "/if_exists", "not go together with once"},
		job(`,"once":1,"debounce":1`):                          {invalid, "/debounce", "not go together with once"},
		job(`,"debounce":1,"if_exists":"replace"`):             {invalid, "/debounce", "one of the two"},
		`{"topic":"t","body":"b","once":1}`:                    {invalid, "/once", "nothing without id"},
		`{"topic":"t","body":"1","group":"k"}`:                 {invalid, "/group", "group_quiet"},
		group(`,"group_max":0`):                                {invalid, "/group_max", "from 1"},
		`{"topic":"t","body":"1","group":"k","group_quiet":0}`: {invalid, "/group_quiet", "from 1ms to 100 years"},
		group(`,"delay":1`):                                    {invalid, "/delay", "not go together with group"},
		group(`,"if_exists":"replace"`):                        {invalid, "/if_exists", "not go together with group"},
		group(`,"id":"a","debounce":1`):                        {invalid, "/debounce", "not go together with group"},
		group(`,"id":"a"`):                                     {invalid, "/id", "with group it means nothing without once"},
		`{"topic":"t","body":"b","group":"k","group_quiet":1}`: {invalid, "", "it is not JSON"},
		job(`,"group_max":1`):                                  {invalid, "/group_max", "nothing without group"},
		job(`,"group_quiet":1`):                                {invalid, "/group_quiet", "nothing without group"},
		job(`,"group_longest":1`):                              {invalid, "/group_longest", "nothing without group"},
		job(`,"if_exists":"Refuse"`):                           {invalid, "/if_exists", "replace, refuse, keep_earlier, keep_later, follow"},
	} {
		f.do("POST", "/v1/jobs", body).problem(want.kind, want.field, "", want.detail)
	}
	for _, path := range []string{"/v1/dead/t/drop", "/v1/dead/t/requeue"} {
		f.do("POST", path, `{"all":1}`).problem(invalid, "/all", "", "true or false")
	}
	f.do("POST", "/v1/ack", `{"deliveries":[{"id":"a","topic":"t","token":1,"headers":{"x":"1","x":"2"}}]}`).problem(badRequest, "/deliveries/0/headers/x", "", "twice")
	f.is("a", "")
	f.do("POST", "/v1/jobs", `{"topic":"t","body":"😀\ud83d\ude00 \\ud800 \" \ufffd"}`).expect(201, `{"id":"*","outcome":"created"}`)
	if m, err := f.Pop(t.Context(), "t"); err != nil || m.Body != "😀😀 \\ud800 \" \ufffd" {
		t.Errorf("%q, %v", m.Body, err)
	}
}

func TestBadRequests(t *testing.T) {
	f := start(t, web.Options{})
	f.push("a", "t")
	f.do("GET", "/v1/", "").problem(noRoute, "", "", "openapi")
	for _, path := range []string{"/v1/jobs/", "/v1/jobs/a/b", "/v1/jobs/a/ack/", "/v1/JOBS/a", "/v1/jobs%2Fa", "/v1/dead"} {
		f.do("GET", path, "").problem(noRoute, "", "", "")
	}
	for path, allow := range map[string]string{
		"/v1/jobs": "GET, HEAD, POST", "/v1/topics/t/jobs": "DELETE, GET, HEAD, PATCH", "/v1/jobs/a": "DELETE, GET, HEAD, PATCH", "/v1/jobs/batch": "DELETE, GET, HEAD, PATCH, POST", "/v1/reserve": "POST", "/v1/topics": "GET, HEAD",
		"/v1/topics/t/ready": "DELETE", "/v1/jobs/a/ack": "POST",
	} {
		for _, method := range []string{"PUT", "OPTIONS", "TRACE", "x"} {
			if r := f.do(method, path, "").problem(badMethod, "", "", ""); r.header.Get("Allow") != allow {
				t.Errorf("%s %s: Allow %q, want %q", method, path, r.header.Get("Allow"), allow)
			}
		}
	}
	for query, parameter := range map[string]string{"?x=1": "x", "?wait=1": "wait", "?%ff": "", "?dry_run=true": "dry_run"} {
		if r := f.do("DELETE", "/v1/jobs/a"+query, ""); r.status != 400 {
			t.Errorf("%s: %d %s, want 400 for %q", query, r.status, r.body, parameter)
		}
	}
	f.do("GET", "/v1/dead/t?limit=1&limit=2", "").problem(badRequest, "", "limit", "2 times")
	f.do("GET", "/v1/dead/t?limits=1", "").problem(badRequest, "", "limits", "match, limit, cursor")
	f.do("GET", "/v1/dead/t?limit=1;cursor=2", "").problem(badRequest, "", "", "query")
	f.do("GET", "/v1/dead/t?limit=%zz", "").problem(badRequest, "", "", "query")
	f.do("DELETE", "/v1/jobs/a", `{}`).problem(badRequest, "", "", "body")
	for media, want := range map[string]int{
		"": 415, "text/plain": 415, "application/x-www-form-urlencoded": 415, "multipart/form-data; boundary=x": 415, "application/json; charset=latin1": 415, "json": 415,
		"application/json": 201, "application/json; charset=UTF-8": 201, "application/json; charset=utf8": 201, "Application/JSON": 201,
	} {
		r := f.request("POST", "/v1/jobs", `{"id":"a","topic":"t","body":"b"}`)
		r.Header.Set("Content-Type", media)
		r.Header.Set("Content-Encoding", "identity")
		if got := f.send(r); got.status != want {
			t.Errorf("%q: %d %s, want %d", media, got.status, got.body, want)
		}
	}
	r := f.request("POST", "/v1/jobs", `{"id":"a","topic":"t","body":"b"}`)
	r.Header.Set("Content-Encoding", "gzip")
	f.send(r).problem(badType, "", "", "Content-Encoding")
	f.do("POST", "/v1/jobs", `{"id":"big","topic":"t","body":"`+strings.Repeat("b", 64<<10)+`"}`).problem(tooLarge, "", "", "65536 bytes")
	f.is("a", client.StateReady)
	f.is("big", "")
	if h := f.do("HEAD", "/v1/jobs/a", ""); h.status != 200 || h.body != "" || h.header.Get("Content-Length") == "" {
		t.Errorf("HEAD: %+v", h)
	}
}

// eachRoute calls f with a valid request for each route.
func (f *fixture) eachRoute(call func(r Route, request *http.Request)) {
	for _, r := range Routes {
		body := map[string]string{
			"/v1/jobs": `{"id":"b","topic":"t","body":"b"}`, "/v1/jobs/batch": `{"jobs":[{"id":"b","topic":"t","body":"b"}]}`, "/v1/jobs/{id}": `{"delay":60}`,
			"/v1/reserve": `{"topics":["t"]}`, "/v1/ack": `{"deliveries":[{"id":"a","topic":"t","token":1}]}`, "/v1/extend": `{"deliveries":[{"id":"a","topic":"t","token":1}],"lease":1}`,
			"/v1/jobs/{id}/extend": `{"topic":"t","token":1,"lease":1}`, "/v1/dead/{topic}/requeue": `{"all":true}`, "/v1/dead/{topic}/drop": `{"all":true}`,
			"/v1/topics/{topic}/pause": `{"for":60}`, "/v1/topics/{topic}/throttle": `{"for":60}`,
			"/v1/topics/{topic}/limit": `{"concurrency":1000}`, "/v1/topics/{topic}/jobs": `{"delay":60}`,
		}[r.Path]
		switch {
		case r.Method == "PUT" && body == "":
			body = `{"cron":"@daily","topic":"t","body":"b"}`
		case r.Path == "/v1/schedules/{name}":
			body = `{"paused":true}`
		case body == "":
			body = `{"topic":"t","token":1}`
		}
		if r.Body == nil {
			body = ""
		}
		path := strings.NewReplacer("{id}", "a", "{topic}", "t", "{name}", "s").Replace(r.Path)
		query := url.Values{}
		for _, p := range r.Query {
			if p.missing == nil {
				query.Set(p.Name, map[string]string{"state": "waiting", "topic": "t", "match": "*"}[p.Name])
			}
		}
		if len(query) > 0 {
			path += "?" + query.Encode()
		}
		call(r, f.request(r.Method, path, body))
	}
}

// With a token configured, no route works without it, and nothing is revealed or changed.
func TestWithoutToken(t *testing.T) {
	f := start(t, web.Options{Token: "0123456789abcdef"})
	f.push("a", "t")
	f.eachRoute(func(r Route, request *http.Request) {
		if got := f.send(request).problem(unauthorized, "", "", "Bearer"); got.header.Get("WWW-Authenticate") == "" {
			t.Errorf("%s %s: no WWW-Authenticate", r.Method, r.Path)
		}
	})
	f.is("a", client.StateReady)
	f.is("b", "")
	f.eachRoute(func(r Route, request *http.Request) {
		request.Header.Set("Authorization", "Bearer 0123456789abcdef")
		if got := f.send(request); got.status == 401 || got.status == 403 {
			t.Errorf("%s %s with the token: %d %s", r.Method, r.Path, got.status, got.body)
		}
	})
}

// With read_only, only GET and dry runs work.
func TestReadOnly(t *testing.T) {
	f := start(t, web.Options{ReadOnly: true})
	f.push("a", "t")
	f.bury("z", "t2", "bad", "closed")
	f.eachRoute(func(r Route, request *http.Request) {
		body := ""
		if request.GetBody != nil {
			text, err := io.ReadAll(redistest.Must(request.GetBody()))
			check(t, err)
			body = string(text)
		}
		got := f.send(request)
		if reads := r.Method == "GET"; reads != (got.status == 200) || !reads && got.status != 403 {
			t.Errorf("%s %s: %d %s", r.Method, r.Path, got.status, got.body)
		}
		if !r.takes("dry_run") {
			return
		}
		for query, want := range map[string]int{"dry_run=true": 200, "dry_run=false": 403, "dry_run=True": 403, "dry_run=false&dry_run=true": 403, "dry_run=true&dry_run=false": 400, "dry_run": 403} {
			if got := f.do(r.Method, request.URL.Path+"?"+request.URL.RawQuery+"&"+query, body); got.status != want {
				t.Errorf("%s %s%s: %d %s, want %d", r.Method, r.Path, query, got.status, got.body, want)
			}
		}
	})
	f.do("POST", "/v1/dead/t2/drop?dry_run=true", `{"all":true}`).expect(200, `{"count":1,"complete":true}`)
	f.do("POST", "/v1/dead/t2/drop", `{"all":true}`).problem(forbidden, "", "", "read_only")
	f.is("a", client.StateReady)
	f.is("b", "")
	f.is("z", client.StateDead)
}

// Another site's page cannot do anything, even if it sends JSON.
func TestOtherSites(t *testing.T) {
	f := start(t, web.Options{})
	f.push("a", "t")
	f.eachRoute(func(r Route, request *http.Request) {
		request.Header.Set("Origin", "http://evil.example")
		request.Header.Set("Sec-Fetch-Site", "cross-site")
		if got := f.send(request); r.Method != "GET" && got.status != 403 {
			t.Errorf("%s %s: %d %s", r.Method, r.Path, got.status, got.body)
		}
	})
	request := f.request("GET", "/v1/topics", "")
	request.Host = "evil.example"
	f.send(request).problem(misdirected, "", "", "hosts")
}

// The user documents list exactly the existing kinds of problem with their status, and name only
// existing paths.
func TestDocs(t *testing.T) {
	for _, page := range []string{"http.md", "http.zh-CN.md"} {
		text, err := os.ReadFile("../../../docs/" + page)
		check(t, err)
		var documented, known []string
		for _, row := range regexp.MustCompile(`(?m)^\| (\d{3}) \| ([\w-]+(?:[,、] ?[\w-]+)*) \|`).FindAllStringSubmatch(string(text), -1) {
			for _, name := range regexp.MustCompile(`[\w-]+`).FindAllString(row[2], -1) {
				documented = append(documented, row[1]+" "+name)
			}
		}
		for _, k := range kinds {
			known = append(known, strconv.Itoa(k.status)+" "+k.name)
		}
		slices.Sort(documented)
		slices.Sort(known)
		if !slices.Equal(documented, known) {
			t.Errorf("%s: documented are %q, known are %q", page, documented, known)
		}
		for _, path := range regexp.MustCompile(`/v1/[\w/{}.%-]*\w`).FindAllString(string(text), -1) {
			is := func(r Route) bool {
				values, err := r.match(strings.Split(path, "/"))
				return err == nil && values != nil || r.Path == path
			}
			if !slices.ContainsFunc(Routes, is) {
				t.Errorf("%s: there is no %s", page, path)
			}
		}
	}
}

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
