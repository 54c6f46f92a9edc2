package delayqueue

import (
	"fmt"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/mix-basic/delayer/client"
)

// When the server stops, waiting polls get an empty answer and no job is lost. Serve waits for that before it
// cuts connections.
func TestStop(t *testing.T) {
	f := start(t, setup{})
	var polls []<-chan reply
	for n := range 50 {
		polls = append(polls, f.later("/pop", fmt.Sprintf(`{"topic":"t,other%d"}`, n)))
	}
	for n := range polls {
		f.waits(fmt.Sprint("other", n))
	}
	f.stop()
	f.push("a", "t", "b", client.TTR(time.Hour))
	for _, poll := range polls {
		f.arrives(poll).expect(t, done, "null")
	}
	if !f.is("a", client.Ready) {
		t.Error("somebody took the job")
	}
	if _, err := http.Post("http://"+f.addr+"/pop", "", nil); err == nil {
		t.Error("it still takes connections")
	}
}

// Hundreds of polls share a few connections to Redis; each gets its job, and all are answered when the
// server stops.
func TestManyPolls(t *testing.T) {
	const polls, topics = 450, 150
	f := start(t, setup{})
	conns := make([]*net.TCPConn, polls)
	for n := range conns {
		conns[n] = f.request("/pop", fmt.Sprintf(`{"topic":"t%d"}`, n%topics))
		if n == topics-1 {
			for n := range topics { // before the others: requests on several connections arrive in any order
				f.waits(fmt.Sprint("t", n))
			}
		}
	}
	until(t, "all wait", func() bool { return f.front.Counts().Waiting == polls })
	until(t, "a handful of connections to Redis is left", func() bool { return f.redis.Connections() <= 8 })
	for n := range topics {
		f.push(fmt.Sprint(n), fmt.Sprint("t", n), fmt.Sprint("body of ", n), client.TTR(time.Hour))
	}
	for n := range topics { // first come, first served
		f.answer(conns[n]).expect(t, done, fmt.Sprintf(`{"id":"%d","body":"body of %[1]d"}`, n))
	}
	f.stop()
	for _, conn := range conns[topics:] {
		f.answer(conn).expect(t, done, "null")
	}
}
