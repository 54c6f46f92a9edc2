package api

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/web"
)

// push pushes a job that is ready at once.
func (f *fixture) push(id, topic string, opts ...client.PushOption) {
	f.t.Helper()
	_, err := f.Push(f.t.Context(), client.Message{ID: id, Topic: topic, Body: "b"}, 0, opts...)
	check(f.t, err)
}

// reserve reserves a job of topic t and returns the JSON of its lease reference.
func (f *fixture) reserve(lease string) (reference string) {
	f.t.Helper()
	list := f.do("POST", "/v1/reserve", `{"topics":["t"],"lease":"`+lease+`"}`).deliveries()
	if len(list) != 1 {
		f.t.Fatalf("reserved %v", list)
	}
	return fmt.Sprintf(`"topic":"t","token":%s`, list[0].Token)
}

// is checks the job's state; "" means that it is gone.
func (f *fixture) is(id string, want client.State) {
	f.t.Helper()
	if job, _ := f.Get(f.t.Context(), id); job.State != want {
		f.t.Errorf("%s is %q, want %q", id, job.State, want)
	}
}

func TestReserve(t *testing.T) {
	f := start(t, web.Options{})
	f.do("POST", "/v1/reserve", `{"topics":["t","u"]}`).expect(200, `{"deliveries":[]}`)
	f.push("a", "u", client.JobOptions{MaxAttempts: 5, Lease: time.Minute})
	f.push("b", "t")
	f.push("c", "t")
	f.do("POST", "/v1/reserve?wait=30s", `{"topics":["t","u"],"max":2,"lease":"1m30s","max_attempts":3}`).expect(200, `{"deliveries":[
		{"id":"b","topic":"t","token":"*","attempt":1,"max_attempts":3,"lease":90,"deadline":"*","late_by":"*","body":"b"},
		{"id":"c","topic":"t","token":"*","attempt":1,"max_attempts":3,"lease":90,"deadline":"*","late_by":"*","body":"b"}]}`)
	f.do("POST", "/v1/reserve?wait=0", `{"topics":["t","u"],"max":2}`).expect(200, `{"deliveries":[
		{"id":"a","topic":"u","token":"*","attempt":1,"max_attempts":5,"lease":60,"deadline":"*","late_by":"*","body":"b"}]}`)
	f.do("POST", "/v1/reserve?wait=10ms", `{"topics":["t"]}`).expect(200, `{"deliveries":[]}`)
	for max, want := range map[string]string{"": `"max_attempts":25,`, `,"max_attempts":0`: `"max_attempts":25,`, `,"max_attempts":-1`: ""} {
		f.push("d", "t")
		f.do("POST", "/v1/reserve", `{"topics":["t"]`+max+`}`).expect(200, `{"deliveries":[{"id":"d","topic":"t","token":"*","attempt":1,`+want+`"lease":30,"deadline":"*","late_by":"*","body":"b"}]}`)
	}
	for path, c := range map[string]struct{ body, field, parameter, detail string }{
		"/v1/reserve":          {`{}`, "/topics", "", "missing"},
		"/v1/reserve?":         {`{"topics":[]}`, "/topics", "", "1 to 100"},
		"/v1/reserve?wait=":    {`{"topics":["t"]}`, "", "wait", "from 0 to 1m"},
		"/v1/reserve?wait=61":  {`{"topics":["t"]}`, "", "wait", "from 0 to 1m"},
		"/v1/reserve?wait=-1s": {`{"topics":["t"]}`, "", "wait", "from 0 to 1m"},
		"/v1/reserve?wait=1":   {`{"topics":["t","u","t"]}`, "/topics/2", "", "twice"},
		"/v1/reserve?wait=2":   {`{"topics":["t"],"max":251}`, "/max", "", "1 to 250"},
		"/v1/reserve?wait=3":   {`{"topics":["t"],"lease":"25h"}`, "/lease", "", "24h"},
		"/v1/reserve?wait=4":   {`{"topics":["t"],"max_attempts":-2}`, "/max_attempts", "", "from -1"},
	} {
		f.do("POST", path, c.body).problem(invalid, c.field, c.parameter, c.detail)
	}
}

// Each settlement works once. After that the lease is lost.
func TestSettlements(t *testing.T) {
	f := start(t, web.Options{})
	for name, c := range map[string]struct {
		path, more string
		status     int
		body       string
		state      client.State
		again      *kind
	}{
		"ack":               {"ack", ``, 204, "", "", gone},
		"retry":             {"retry", `,"error":"closed"`, 200, `{"state":"ready"}`, client.StateReady, leaseLost},
		"retry later":       {"retry", `,"delay":60`, 200, `{"state":"waiting"}`, client.StateWaiting, leaseLost},
		"release":           {"release", ``, 204, "", client.StateReady, leaseLost},
		"release for later": {"release", `,"delay":"1m"`, 204, "", client.StateWaiting, leaseLost},
		"bury":              {"bury", `,"error":"closed"`, 204, "", client.StateDead, leaseLost},
	} {
		t.Run(name, func(t *testing.T) {
			f.t = t
			f.push("a", "t")
			reference := f.reserve("1m")
			f.do("POST", "/v1/jobs/a/"+c.path, "{"+reference+c.more+"}").expect(c.status, c.body)
			if job, _ := f.Get(t.Context(), "a"); job.State != c.state || strings.Contains(c.more, "closed") != (job.Error == "closed") || (c.path == "bury") != (job.Reason == "closed") {
				t.Errorf("%+v, want it %s", job, c.state)
			}
			f.do("POST", "/v1/jobs/a/"+c.path, "{"+reference+c.more+"}").problem(c.again, "", "", "")
			f.Remove(t.Context(), "a")
		})
	}
	f.t = t
	f.push("a", "t", client.JobOptions{MaxAttempts: 1})
	reference := f.reserve("1m")
	f.do("POST", "/v1/jobs/a/extend", `{`+reference+`,"lease":"1h"}`).expect(200, `{"lease":3600,"deadline":"*"}`)
	if job, err := f.Get(t.Context(), "a"); err != nil || time.Until(job.Due) < 59*time.Minute {
		t.Errorf("extended: %+v, %v", job, err)
	}
	f.do("POST", "/v1/jobs/a/retry", `{`+reference+`,"delay":60}`).expect(200, `{"state":"dead"}`)
	f.is("a", client.StateDead)
}

// Only the holder of a lease can settle its job.
func TestSettlementsOfOthers(t *testing.T) {
	f := start(t, web.Options{})
	f.push("a", "t")
	reference := f.reserve("1m")
	token := reference[strings.LastIndex(reference, ":")+1:]
	for _, verb := range []string{"ack", "retry", "release", "extend", "bury"} {
		lease := ""
		if verb == "extend" {
			lease = `,"lease":1`
		}
		f.do("POST", "/v1/jobs/a/"+verb, `{"topic":"t","token":1`+lease+`}`).problem(leaseLost, "", "", "nothing was changed")
		f.do("POST", "/v1/jobs/a/"+verb, `{"topic":"u","token":`+token+lease+`}`).problem(leaseLost, "", "", "nothing was changed")
		f.do("POST", "/v1/jobs/a/"+verb, `{"topic":"t"`+lease+`}`).problem(invalid, "/token", "", "missing")
		f.do("POST", "/v1/jobs/a/"+verb, `{"token":1`+lease+`}`).problem(invalid, "/topic", "", "missing")
		f.do("POST", "/v1/jobs/a/"+verb, `{"topic":"t","token":"1"`+lease+`}`).problem(invalid, "/token", "", "whole number")
		f.is("a", client.StateReserved)
	}
	f.do("POST", "/v1/jobs/a/extend", `{`+reference+`}`).problem(invalid, "/lease", "", "missing")
	f.do("POST", "/v1/jobs/a/retry", `{`+reference+`,"delay":-1}`).problem(invalid, "/delay", "", "from 0s")
	f.is("a", client.StateReserved)
}

func TestSettlementsOfSeveral(t *testing.T) {
	f := start(t, web.Options{})
	f.push("a", "t")
	f.push("b", "t")
	list := f.do("POST", "/v1/reserve", `{"topics":["t"],"max":2}`).deliveries()
	a := fmt.Sprintf(`{"id":"a","topic":"t","token":%s}`, list[0].Token)
	b := fmt.Sprintf(`{"id":"b","topic":"t","token":%s}`, list[1].Token)
	lost := `{"id":"b","problem":{"type":"urn:delayer:problem:lease-lost","title":"*","status":409,"detail":"*"}}`
	f.do("POST", "/v1/extend", `{"deliveries":[`+a+`,`+strings.Replace(b, `"t"`, `"u"`, 1)+`],"lease":120}`).expect(200, `{"count":1,"complete":false,"results":[{"id":"a","lease":120,"deadline":"*"},`+lost+`]}`)
	f.do("POST", "/v1/ack", `{"deliveries":[`+a+`,`+a+`]}`).problem(invalid, "/deliveries/1/id", "", "/deliveries/0 has the same ID")
	f.do("POST", "/v1/ack", `{"deliveries":[]}`).problem(invalid, "/deliveries", "", "1 to 1000")
	f.do("POST", "/v1/ack", `{}`).problem(invalid, "/deliveries", "", "missing")
	f.do("POST", "/v1/ack", `{"deliveries":[{"id":"a","topic":"t"}]}`).problem(invalid, "/deliveries/0/token", "", "missing")
	f.do("POST", "/v1/ack", `{"deliveries":[{"token":1,"topic":"t"}]}`).problem(invalid, "/deliveries/0/id", "", "missing")
	f.do("POST", "/v1/extend", `{"deliveries":[`+a+`]}`).problem(invalid, "/lease", "", "missing")
	f.do("POST", "/v1/ack", `{"deliveries":[`+a+`,`+b+`]}`).expect(200, `{"count":2,"complete":true,"results":[{"id":"a"},{"id":"b"}]}`)
	f.do("POST", "/v1/ack", `{"deliveries":[`+a+`]}`).expect(200, `{"count":0,"complete":false,"results":[{"id":"a","problem":{"type":"urn:delayer:problem:gone","title":"*","status":410,"detail":"*"}}]}`)
}

// The result of reserve can be passed to extend and ack unchanged, with numbers in the formats of other
// languages.
func TestDeliveriesAsGiven(t *testing.T) {
	f := start(t, web.Options{})
	f.push("a", "t")
	f.push("\xff", "t")
	_, err := f.Push(t.Context(), client.Message{ID: "c", Topic: "t", Body: "\xfe"}, 0, client.JobOptions{MaxAttempts: 3})
	check(t, err)
	given := strings.TrimSpace(f.do("POST", "/v1/reserve", `{"topics":["t"],"max":3}`).body)
	if strings.Count(given, `"attempt"`) != 3 {
		t.Fatal(given)
	}
	f.do("POST", "/v1/extend", strings.TrimSuffix(given, "}")+`,"lease":"1h"}`).expect(200, `{"count":3,"complete":true,"results":[`+
		`{"id":"a","lease":3600,"deadline":"*"},{"id_base64":"/w==","lease":3600,"deadline":"*"},{"id":"c","lease":3600,"deadline":"*"}]}`)
	f.do("POST", "/v1/ack", given).expect(200, `{"count":3,"complete":true,"results":[{"id":"a"},{"id_base64":"/w=="},{"id":"c"}]}`)

	f.push("a", "t")
	f.push("b", "t")
	list := f.do("POST", "/v1/reserve", `{"topics":["t"],"max":2.0}`).deliveries()
	f.do("POST", "/v1/jobs/a/ack", fmt.Sprintf(`{"topic":"t","token":%s.0}`, list[0].Token)).expect(204, "")
	f.do("POST", "/v1/jobs/b/ack", fmt.Sprintf(`{"topic":"t","token":%s.%se15}`, list[1].Token[:1], list[1].Token[1:])).expect(204, "")
}

// waiting sends a reserve of topic t on a new connection and returns once it waits in Redis.
func (f *fixture) waiting(body string) *net.TCPConn {
	f.t.Helper()
	conn := f.raw("POST", "/v1/reserve?wait=60s", body)
	f.redis.AwaitWaiter("t")
	return conn
}

// A client that closes its side of the connection while waiting takes no job and gets an empty answer: the next
// client gets the job at its first attempt.
func TestHangUp(t *testing.T) {
	f := start(t, web.Options{})
	for n := range 10 {
		conn := f.waiting(`{"topics":["t"],"lease":"1h"}`)
		conn.CloseWrite()
		f.answer(conn).expect(200, `{"deliveries":[]}`)
		f.push(fmt.Sprint(n), "t")
		list := f.do("POST", "/v1/reserve?wait=30s", `{"topics":["t"]}`).deliveries()
		if len(list) != 1 || list[0].ID != fmt.Sprint(n) || list[0].Attempt != 1 {
			t.Fatalf("job %d: the next has got %+v", n, list)
		}
	}
}

// Jobs whose answer cannot be written are released at once; the attempt does not count.
func TestAnswerIsNotRead(t *testing.T) {
	f := start(t, web.Options{})
	large := strings.Repeat("b", 16<<20) // more than the kernel buffers
	_, err := f.Push(t.Context(), client.Message{ID: "a", Topic: "t", Body: large}, 0)
	check(t, err)
	conn := f.raw("POST", "/v1/reserve", `{"topics":["t"]}`)
	_, err = conn.Read(make([]byte, 1000))
	check(t, err)
	f.is("a", client.StateReserved)
	conn.Close()
	until(t, "the job is given back", func() bool {
		job, err := f.Get(t.Context(), "a")
		return err == nil && job.State == client.StateReady && job.Attempts == 0
	})
}

// connect opens a new connection.
func (f *fixture) connect() *net.TCPConn {
	f.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(f.url, "http://"))
	check(f.t, err)
	f.t.Cleanup(func() { conn.Close() })
	return conn.(*net.TCPConn)
}

// raw sends a request on a new connection.
func (f *fixture) raw(method, path, body string) *net.TCPConn {
	f.t.Helper()
	conn := f.connect()
	fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", method, path, len(body), body)
	return conn
}

// answer reads the answer.
func (f *fixture) answer(conn net.Conn) reply {
	f.t.Helper()
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	check(f.t, err)
	return f.read(response)
}

// A client that closes its side of the connection after a push still gets the answer.
func TestHalfClosed(t *testing.T) {
	f := start(t, web.Options{})
	conn := f.raw("POST", "/v1/jobs", `{"id":"a","topic":"t","body":"b"}`)
	conn.CloseWrite()
	f.answer(conn).expect(201, `{"id":"a","outcome":"*"}`)
	f.is("a", client.StateReady)
}
