package delayqueue

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/store"
)

// Successful answers match delay-queue's byte for byte.
func TestAnswers(t *testing.T) {
	f := start(t, setup{Options: Options{PollTimeout: time.Millisecond}})
	f.push("x", "u", "<a> & \"b\"\n")
	for _, c := range []struct{ path, body, want string }{
		{"/push", `{"topic":"t","id":"a","delay":60,"ttr":60,"body":"b"}`, `{"code":0,"message":"添加成功","data":null}`},
		{"/pop", `{"topic":"t"}`, `{"code":0,"message":"操作成功","data":null}`},
		{"/pop", `{"topic":"u"}`, `{"code":0,"message":"操作成功","data":{"id":"x","body":"\u003ca\u003e \u0026 \"b\"\n"}}`},
		{"/finish", `{"id":"x"}`, `{"code":0,"message":"操作成功","data":null}`},
		{"/delete", `{"id":"a"}`, `{"code":0,"message":"操作成功","data":null}`},
		{"/delete", `{"id":"never was"}`, `{"code":0,"message":"操作成功","data":null}`},
		{"/get", `{"id":"a"}`, `{"code":0,"message":"操作成功","data":null}`},
	} {
		response := f.send("POST", c.path, c.body, "")
		text, _ := io.ReadAll(response.Body)
		response.Body.Close()
		if string(text) != c.want || response.StatusCode != http.StatusOK {
			t.Errorf("%s %s: %s, %s, want %s", c.path, c.body, response.Status, text, c.want)
		}
	}
}

// get returns the data of /get.
func (f *fixture) get(id string) job {
	f.t.Helper()
	r := f.call("/get", fmt.Sprintf(`{"id":%q}`, id))
	var j job
	if err := json.Unmarshal(r.Data, &j); err != nil || r.Code != 0 || r.Message != done {
		f.t.Errorf("/get of %q: %+v, %v", id, r, err)
	}
	return j
}

// expectJob checks the job and that its due time, in seconds, is want.Delay after a time between from and to.
func (f *fixture) expectJob(id string, want job, from time.Time, ago time.Duration) {
	f.t.Helper()
	got := f.get(id)
	to := time.Now().Add(-ago)
	if first, last := from.Unix()+want.Delay, to.Unix()+want.Delay; got.Delay < first || got.Delay > last {
		f.t.Errorf("delay %d, want one from %d to %d", got.Delay, first, last)
	}
	if got.Delay = want.Delay; got != want {
		f.t.Errorf("/get answers %+v, want %+v", got, want)
	}
}

// The life of a job: waiting, ready, popped, redelivered after its ttr, finished.
func TestLife(t *testing.T) {
	t.Parallel()
	f := start(t, setup{})
	const pushJob, popT, jobA, want = `{"topic":"t","id":"a","delay":2,"ttr":2,"body":"{\"uid\":1}"}`, `{"topic":"t"}`, `{"id":"a"}`, `{"id":"a","body":"{\"uid\":1}"}`
	pushing := time.Now()
	f.call("/push", pushJob).expect(t, pushed, "null")
	told := job{Topic: "t", ID: "a", Delay: 2, TTR: 2, Body: `{"uid":1}`}
	f.expectJob("a", told, pushing, 0)
	until(t, "the job is ready", func() bool { return f.is("a", client.StateReady) })
	f.expectJob("a", told, pushing.Add(-time.Second), time.Second) // roughly when it fell due

	popping := time.Now()
	f.arrives(f.later("/pop", popT)).expect(t, done, want)
	told.Delay = 2 // end of its ttr
	f.expectJob("a", told, popping, 0)
	f.arrives(f.later("/pop", popT)).expect(t, done, want)
	if took := time.Since(popping); took < 2*time.Second {
		t.Errorf("it came again after %v", took)
	}
	f.call("/finish", jobA).expect(t, done, "null")
	f.call("/get", jobA).expect(t, done, "null")
	f.call("/finish", jobA).expect(t, done, "null")
	if was, err := f.client.Remove(t.Context(), "a"); was != "" || err != nil {
		t.Errorf("the job was left: %q, %v", was, err)
	}
}

// A push of an ID that exists replaces the job, also that of another topic.
func TestPushToAnotherTopic(t *testing.T) {
	f := start(t, setup{})
	f.push("a", "t", "b")
	f.call("/push", `{"topic":"u","id":"a","delay":3600,"ttr":2,"body":"new"}`).expect(t, pushed, "null")
	if job, err := f.client.Get(t.Context(), "a"); job.Topic != "u" || job.Body != "new" || err != nil {
		t.Errorf("%+v, %v", job, err)
	}
}

// After a redelivery, the previous consumer can still finish the job.
func TestFinishMeansTheNewestLease(t *testing.T) {
	f := start(t, setup{})
	f.push("a", "t", "b", client.JobOptions{Lease: time.Millisecond})
	f.call("/pop", `{"topic":"t"}`).expect(t, done, `{"id":"a","body":"b"}`)
	f.arrives(f.later("/pop", `{"topic":"t"}`)).expect(t, done, `{"id":"a","body":"b"}`)
	f.call("/finish", `{"id":"a"}`).expect(t, done, "null")
	f.call("/get", `{"id":"a"}`).expect(t, done, "null")
}

// A job without a ttr is leased for 30 s. Jobs of other clients may have any format.
func TestForeignJobs(t *testing.T) {
	f := start(t, setup{})
	f.push("a", "t", "b")
	f.expectJob("a", job{Topic: "t", ID: "a", Delay: 0, TTR: 30, Body: "b"}, time.Now().Add(-time.Second), 0)
	f.push("a", "t", "b", client.JobOptions{Lease: 1500 * time.Millisecond, ExpireAfter: store.MaxDelay})
	f.expectJob("a", job{Topic: "t", ID: "a", Delay: 0, TTR: 2, Body: "b"}, time.Now().Add(-time.Second), 0)
}

// A job that is not UTF-8 is never delivered altered: pop and get explain what to do, and the job stays
// reserved so that other jobs of the topic are delivered.
func TestJobsThatAreNoText(t *testing.T) {
	f := start(t, setup{})
	for id, body := range map[string]string{"\xff": "b", "a": "\xfe"} {
		f.push(id, "t", body, client.JobOptions{Lease: time.Hour})
		f.push("next", "t", "b")
		f.arrives(f.later("/pop", `{"topic":"t"}`)).fails(t, "UTF-8", fmt.Sprintf("%q is not UTF-8", id), "/v1", "base64")
		if !f.is(id, client.StateReserved) {
			t.Errorf("%q is not reserved", id)
		}
		f.arrives(f.later("/pop", `{"topic":"t"}`)).expect(t, done, `{"id":"next","body":"b"}`)
		f.call("/finish", `{"id":"next"}`).expect(t, done, "null")
	}
	f.call("/get", `{"id":"a"}`).fails(t, "UTF-8", "/v1")
	f.call("/get", "{\"id\":\"\xff\"}").expect(t, done, "null") // JSON cannot express this ID
}

func TestSeveralTopics(t *testing.T) {
	f := start(t, setup{})
	f.push("1", "b", "x")
	f.push("2", "a", "x")
	f.push("3", "c d", "x")
	for _, want := range []string{"2", "1", "3"} {
		f.call("/pop", `{"topic":" a,, b ,a,\t c d ,"}`).expect(t, done, `{"id":"`+want+`","body":"x"}`)
	}
	waiting := f.later("/pop", `{"topic":"a,b"}`)
	f.waits("b")
	f.push("4", "b", "x")
	f.arrives(waiting).expect(t, done, `{"id":"4","body":"x"}`)
}

// Pushed is called for pushed jobs only.
func TestPushed(t *testing.T) {
	var told []string
	f := start(t, setup{Options: Options{Pushed: func(topic string, jobs int) { told = append(told, fmt.Sprint(topic, jobs)) }}})
	f.call("/push", `{"topic":" t ","id":"a","delay":1,"ttr":60,"body":"b"}`).expect(t, pushed, "null")
	f.call("/push", `{"topic":"t","id":"a","delay":0,"ttr":60,"body":"b"}`).fails(t, "delay")
	f.call("/push", `{"topic":"`+strings.Repeat("t", maxTopic+1)+`","id":"a","delay":1,"ttr":60,"body":"b"}`).fails(t, "添加失败", "topic")
	if got := strings.Join(told, " "); got != "t1" {
		t.Errorf("told of %q", got)
	}
}
