package inspect

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/internal/store"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

func topicNames(counts []TopicCounts) string {
	var names []string
	for _, t := range counts {
		names = append(names, t.Topic)
	}
	return strings.Join(names, " ")
}

// A page has the requested topics in the requested order, and the total number of topics.
func TestTopics(t *testing.T) {
	onEach(t, func(t *testing.T, f *fixture) {
		for i, topic := range []string{"mail", "sms", "mail.eu", "Mail", "fax"} {
			for n := range i {
				f.push(topic, fmt.Sprint(topic, n), 0)
			}
			f.push(topic, topic, time.Hour)
		}
		for _, c := range []struct {
			query   TopicQuery
			want    string
			matched int
		}{
			{TopicQuery{}, "Mail fax mail mail.eu sms", 5},
			{TopicQuery{First: 1, Limit: 2}, "fax mail", 5},
			{TopicQuery{First: 4, Limit: 2}, "sms", 5},
			{TopicQuery{First: 5}, "", 5},
			{TopicQuery{After: "fax", Limit: 2}, "mail mail.eu", 5},
			{TopicQuery{After: "g", Limit: 1}, "mail", 5},
			{TopicQuery{After: "sms"}, "", 5},
			{TopicQuery{Contains: "mail"}, "mail mail.eu", 2},
			{TopicQuery{Contains: "."}, "mail.eu", 1}, // a plain text, not a pattern
			{TopicQuery{Contains: "nobody"}, "", 0},
		} {
			page, err := f.Topics(f.ctx, c.query)
			f.check(err)
			if got := topicNames(page.Topics); got != c.want || page.Matched != c.matched || page.Known != 5 || page.Looked != 5 {
				t.Errorf("%+v: %q of %d that match, %d were looked at, %d in all; want %q of %d", c.query, got, page.Matched, page.Looked, page.Known, c.want, c.matched)
			}
		}
	})
}

func TestTopicsRefuses(t *testing.T) {
	f, _ := onRedis(t)
	for _, q := range []TopicQuery{{Limit: -1}, {Limit: MaxPage + 1}, {First: -1}} {
		if _, err := f.Topics(f.ctx, q); err == nil || !strings.HasPrefix(err.Error(), "list topics: ") {
			t.Errorf("%+v: %v", q, err)
		}
	}
}

// However many topics exist, a bounded number is read: the topics used last.
func TestTopicsAreBounded(t *testing.T) {
	f, _ := onRedis(t)
	f.Do("EVAL", `for i = 1, ARGV[1] do redis.call('ZADD', 'delayer:topics', i, string.format('t%06d', (i * 7919) % ARGV[1])) end`, 0, maxNames+10)
	f.Do("ZADD", "delayer:topics", 9e9, "busy", 1e9, "less busy")
	f.Do("LPUSH", "delayer:ready_queue:less busy", "ghost")
	f.Do("LPUSH", "delayer:ready_queue:busy", "ghost", "ghost")
	c := f.counts()
	if len(c.Topics) != MostTopics || len(c.Used) != MostTopics || c.Known != maxNames+12 || c.Used[MostTopics-1] != "busy" || c.of("less busy").Ready != 1 {
		t.Errorf("%d topics of %d, the last one %q", len(c.Topics), c.Known, c.Used[len(c.Used)-1])
	}
	page, err := f.Topics(f.ctx, TopicQuery{Contains: "busy"})
	f.check(err)
	if topicNames(page.Topics) != "busy less busy" || page.Matched != 2 || page.Looked != maxNames || page.Known != maxNames+12 {
		t.Errorf("%+v", page)
	}
	page, err = f.Topics(f.ctx, TopicQuery{Contains: "t0", First: 10})
	f.check(err)
	if len(page.Topics) != 50 || page.Matched < 10000 || !slices.IsSortedFunc(page.Topics, func(a, b TopicCounts) int { return strings.Compare(a.Topic, b.Topic) }) {
		t.Errorf("%+v", page)
	}
}

// A topic is known if it has any jobs or was used lately.
func TestTopic(t *testing.T) {
	onEach(t, func(t *testing.T, f *fixture) {
		f.push("waits", "w", time.Hour)
		f.push("ready", "r", 0)
		f.Do("LPUSH", "delayer:ready_queue:moved by an old server", "ghost")
		for topic, want := range map[string]TopicCounts{
			"waits": {}, "ready": {Ready: 1}, "moved by an old server": {Ready: 1}, "another": {},
		} {
			want.Topic = topic
			c, known, err := f.Topic(f.ctx, topic)
			f.check(err)
			got := c.Topics[0]
			got.Overdue, got.AtLeast = 0, 0
			if known != (topic != "another") || got != want || c.Pool != 1 {
				t.Errorf("%q: %+v, known %v, want %+v", topic, c, known, want)
			}
		}
	})
}

// Only topics with dead letters are listed.
func TestDeadTopics(t *testing.T) {
	onEach(t, func(t *testing.T, f *fixture) {
		f.push("none", "w", time.Hour)
		f.bury("b", "x", "reason", "cause")
		f.bury("a", "y", "reason", "cause")
		f.bury("a", "z", "reason", "cause")
		c, err := f.DeadTopics(f.ctx)
		f.check(err)
		if want := []TopicCounts{{Topic: "a", Dead: 2}, {Topic: "b", Dead: 1}}; !slices.Equal(c.Topics, want) || c.Known != 2 || c.Time.IsZero() {
			t.Errorf("%+v, want %+v", c, want)
		}
	})
}

// hear subscribes to each of the channels.
func hear(t *testing.T, addr string, channels ...string) {
	t.Helper()
	for _, channel := range channels {
		conn, err := redis.Dial("tcp", addr)
		redistest.Check(t, err)
		t.Cleanup(func() { conn.Close() })
		waiter := redis.PubSubConn{Conn: conn}
		redistest.Check(t, waiter.Subscribe(channel))
		if heard, is := waiter.Receive().(redis.Subscription); !is {
			t.Fatal(channel, heard)
		}
	}
}

// Each live client that waits for a topic counts, however many topics there are. A user without permission gets no number.
func TestWaiters(t *testing.T) {
	t.Parallel()
	f, _ := onRedis(t)
	var topics []store.WaitedFor
	want := make([]int, 3*waitersStep/2)
	for i := range want {
		topics = append(topics, store.WaitedFor{Topic: fmt.Sprint("topic ", i, "\xff")})
	}
	for n, i := range []int{0, waitersStep, waitersStep, len(want) - 1} {
		hear(t, f.Addr, fmt.Sprint("delayer:wake:", n))
		f.Do("ZADD", "delayer:waiters:"+topics[i].Topic, 1, n, 2, "dead")
		want[i]++
	}
	if got, err := f.Inspector.Waiters(f.ctx, topics); err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, %v", got, err)
	}
	if got, err := f.Inspector.Waiters(f.ctx, nil); err != nil || got == nil || len(got) != 0 {
		t.Errorf("of no topics: %v, %v", got, err)
	}
	f.Do("ACL", "SETUSER", "default", "-pubsub")
	if got, err := f.Inspector.Waiters(f.ctx, topics); err != nil || got != nil {
		t.Errorf("who may not know gets %v, %v", got, err)
	}
	if got, err := f.Inspector.Listeners(f.ctx, topics); err != nil || got != nil {
		t.Errorf("who may not know gets %v, %v", got, err)
	}
}

// Each program is listed once, with everything it waits for in any partition. Programs without a name are listed together, last.
func TestListeners(t *testing.T) {
	t.Parallel()
	f := inPartitions(t)
	says := func(partition int, id, host string, pid int, name string) {
		f.Do("RPUSH", fmt.Sprintf("delayer:{%d}:client:%s", partition, id), host, pid, name)
	}
	waits := func(partition int, id string, since int, topics ...string) {
		for _, topic := range topics {
			f.Do("ZADD", fmt.Sprintf("delayer:{%d}:waiters:%s", partition, topic), since, id)
		}
		hear(t, f.Addr, fmt.Sprintf("delayer:{%d}:wake:%s", partition, id))
	}
	for partition := range 2 { // nothing is known about the others
		says(partition, "s1", "b", 7, "shop")
		says(partition, "s2", "b", 7, "shop")
		waits(partition, "s1", 3000000+partition, "mail", "order")
		waits(partition, "s2", 5000000, "mail")
	}
	says(2, "other", "a", 1, "report")
	waits(2, "other", 9000000, "order")
	waits(2, "old", 1000000, "mail")
	f.Do("ZADD", "delayer:{2}:waiters:mail", 1, "dead")
	topics := []store.WaitedFor{{Topic: "order"}, {Topic: "nobody"}, {Topic: "mail"}}
	got, err := f.Inspector.Listeners(f.ctx, topics)
	redistest.Check(t, err)
	want := Listeners{Clients: []int{1, 0, 2}, Programs: []Listener{
		{store.Program{Host: "a", Name: "report", PID: 1}, 1, time.Unix(9, 0), []string{"order"}},
		{store.Program{Host: "b", Name: "shop", PID: 7}, 2, time.Unix(3, 0), []string{"order", "mail"}},
		{store.Program{}, 1, time.Unix(1, 0), []string{"mail"}},
	}}
	if fmt.Sprint(*got) != fmt.Sprint(want) {
		t.Errorf("got  %v\nwant %v", *got, want)
	}
}
