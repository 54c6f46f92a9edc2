package client

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/mix-basic/delayer/internal/store"
)

const (
	// lookEvery is how often the queues that are waited for are looked at,
	// should a message have been missed or the server be one that sends none.
	lookEvery = time.Second
	// pollEvery is how often that is where messages can't be heard. Of more topics than pollAtOnce
	// some have their turn each time, and all within lookEvery.
	pollEvery  = 50 * time.Millisecond
	pollAtOnce = 250
	// listenAgain is when we try to hear messages after that was refused.
	listenAgain = time.Minute
	// lingerFor is how long a topic is listened to that nobody waits for any
	// more: a consumer comes back when it is done with its job.
	lingerFor = 5 * time.Second
	// rideOut is for how long BPop bears Redis being away.
	rideOut = 3 * time.Second

	firstRetry = 20 * time.Millisecond
	lastRetry  = 500 * time.Millisecond
)

// listener hears, on one connection, of the jobs of all topics of a partition
// that callers wait for. What it does not hear it finds by a look at their queues
// once a second. Its fields are guarded by topics.mu.
type listener struct {
	topics    *topics
	partition *partition
	running   bool
	changed   chan struct{} // holds one; something is in the next two
	added     []*topicQueue // to be listened to
	unseen    []*topicQueue // to be looked at: a job may have come before we listened
	polled    []*topicQueue // whose channels were refused, in the order of their turns
	asked     time.Time     // when all channels were last asked for
	leaves    bool          // our server takes no writes any more
	warned    bool
}

// hearing is whether a queue's topic is listened to.
type hearing struct {
	wanted  bool
	refused bool      // its channel was refused: it is polled
	left    time.Time // when its last caller was seen to have gone; zero while there is one
}

func newListener(ts *topics, p *partition) *listener {
	return &listener{topics: ts, partition: p, changed: make(chan struct{}, 1)}
}

// hear has the topic listened to.
func (q *topicQueue) hear() {
	if q.wanted {
		return
	}
	q.wanted = true
	l := q.partition.listener
	l.added = append(l.added, q)
	l.signal()
	if !l.running {
		l.running = true
		q.topics.client.running.Add(1)
		go l.run()
	}
}

func (l *listener) signal() {
	select {
	case l.changed <- struct{}{}:
	default:
	}
}

// run listens for as long as anybody waits.
func (l *listener) run() {
	defer l.topics.client.running.Done()
	retry := firstRetry
	for l.isWanted() {
		began := time.Now()
		err := l.listen()
		if err == nil || l.topics.client.closing.Err() != nil {
			continue
		}
		l.report(err)
		if time.Since(began) > lastRetry { // it had worked: try again at once
			retry = firstRetry
			continue
		}
		l.sleep(retry)
		retry = min(2*retry, lastRetry)
	}
}

// isWanted reports whether any topic is waited for; if not, the listener has ended.
func (l *listener) isWanted() bool {
	l.topics.mu.Lock()
	defer l.topics.mu.Unlock()
	l.running = len(l.wanted()) > 0 && !l.topics.closed
	return l.running
}

// wanted are the queues that are listened to.
func (l *listener) wanted() []*topicQueue {
	var queues []*topicQueue
	for _, q := range l.topics.all() {
		if q.partition == l.partition && q.wanted {
			queues = append(queues, q)
		}
	}
	return queues
}

func (l *listener) sleep(d time.Duration) {
	select {
	case <-time.After(d):
	case <-l.topics.client.closing.Done():
	}
}

// listen listens until an error, until nobody waits, or until our server takes no writes any more.
func (l *listener) listen() error {
	sub, err := l.partition.store.Subscribe(l.topics.client.closing)
	if err != nil {
		return err
	}
	defer sub.Close()
	l.begin()
	broken := make(chan error, 1)
	go func() { broken <- l.receive(sub) }()
	return l.mind(sub, broken)
}

// begin has all topics asked for that are wanted.
func (l *listener) begin() {
	l.topics.mu.Lock()
	defer l.topics.mu.Unlock()
	l.added, l.unseen, l.asked, l.leaves = l.wanted(), nil, time.Now(), false
	l.signal()
}

// listenAnew has the listeners open other connections, as theirs may lead to a server that is told
// nothing any more.
func (c *Client) listenAnew() {
	c.topics.mu.Lock()
	defer c.topics.mu.Unlock()
	for _, p := range c.partitions {
		p.listener.leaves = true
		p.listener.signal()
	}
}

// receive enters what is heard, until the connection ends.
func (l *listener) receive(sub *store.Subscription) error {
	channels := l.partition.store.Keys().Ready("")
	for {
		event, err := sub.Receive()
		if err != nil {
			return err
		}
		topic := strings.TrimPrefix(event.Channel, channels)
		if event.Refused != nil {
			l.refuse(topic, event.Refused)
		} else {
			l.enter(topic, event)
		}
	}
}

func (l *listener) enter(topic string, event store.Event) {
	l.topics.mu.Lock()
	defer l.topics.mu.Unlock()
	for _, q := range l.topics.queues[topicKey{l.partition, topic}] {
		if event.Subscribed {
			q.refused = false
			l.unseen = append(l.unseen, q)
			l.signal()
		} else {
			jobs, _ := strconv.Atoi(string(event.Data))
			q.tell(max(jobs, 1)) // somebody else's words mean that there is something
		}
	}
}

// refuse notes that this user may not listen to the topic, and says so of the first one.
func (l *listener) refuse(topic string, err error) {
	l.topics.mu.Lock()
	for _, q := range l.topics.queues[topicKey{l.partition, topic}] {
		if q.wanted && !q.refused {
			q.refused = true
			l.polled = append(l.polled, q)
			l.signal()
		}
	}
	warned := l.warned
	l.warned = true
	l.topics.mu.Unlock() // a logger may keep us waiting
	if !warned {
		channels := l.partition.store.Keys().Ready("") + "*"
		l.topics.client.logger.Warn(fmt.Sprintf("delayer: BPop can't listen for jobs of every topic and asks for those every %v instead: this Redis user may not subscribe; ACL: &%s +subscribe", pollEvery, channels), "topic", topic, "error", err)
	}
}

// report tells the callers of an error.
func (l *listener) report(err error) {
	l.topics.mu.Lock()
	defer l.topics.mu.Unlock()
	for _, q := range l.wanted() {
		for e := q.callers.Front(); e != nil; {
			c := e.Value.(*caller)
			e = e.Next()
			if c.isFree() && !c.isAsking() {
				c.failed(err)
			}
		}
	}
}
