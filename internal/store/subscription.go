package store

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"
)

const (
	// pongWithin is how long an answer to that may take. Any other word is
	// as good.
	pongWithin = 3 * time.Second
)

// Subscription hears what is published on its channels, over a connection of
// its own. A dead connection is found out: nobody listens to one for long.
//
// Receive is for one goroutine. Add, Remove and Close may be called by others
// meanwhile.
type Subscription struct {
	store  *Store
	conn   redis.Conn
	words  vocabulary
	ping   *time.Timer
	silent time.Duration // before we ask whether the connection is alive

	sending    sync.Mutex // guards what follows, and the connection's writing side
	unanswered []request  // in the order in which the answers come
}

// vocabulary are the words of Redis's commands and answers.
type vocabulary struct{ subscribe, unsubscribe, subscribed, unsubscribed, message string }

var (
	plainWords = vocabulary{"SUBSCRIBE", "UNSUBSCRIBE", "subscribe", "unsubscribe", "message"}
	slotWords  = vocabulary{"SSUBSCRIBE", "SUNSUBSCRIBE", "ssubscribe", "sunsubscribe", "smessage"} // of channels of slots
)

// errMoved is why a Subscription ends of whose channels a node says, unasked, that they are not heard any more.
var errMoved = errors.New("the slot of a channel is on another node now")

// request is a command with one answer.
type request struct{ command, channel string }

// Event is something that a Subscription has heard of one of its channels.
type Event struct {
	Channel string
	// Subscribed is true once for each channel that was asked for: from now on
	// all that is published there is heard, nothing of before.
	Subscribed bool
	// Refused is why the channel can't be heard: this user may not. The other
	// channels are not concerned.
	Refused error
	// Data is what was published, if the event is neither of those.
	Data []byte
}

// Subscribe opens a connection and asks for the channels; none is all right too. When it was silent for so
// long it is tried. ctx bounds the dial only.
func (s *Store) Subscribe(ctx context.Context, silent time.Duration, channels ...string) (*Subscription, error) {
	conn, err := s.pool.Dial(ctx)
	if err != nil {
		return nil, causeOf(ctx, err)
	}
	sub := &Subscription{store: s, conn: conn, silent: silent, words: plainWords}
	if s.Sharded() {
		sub.words = slotWords
	}
	sub.ping = time.AfterFunc(silent, func() { sub.send("PING", "") })
	if err := sub.Add(channels...); err != nil {
		sub.Close()
		return nil, err
	}
	return sub, nil
}

// Add asks for further channels. Receive tells when they are heard.
func (sub *Subscription) Add(channels ...string) error {
	return sub.send(sub.words.subscribe, channels...)
}

// Remove ends the hearing of channels. What is under way may still come.
func (sub *Subscription) Remove(channels ...string) error {
	return sub.send(sub.words.unsubscribe, channels...)
}

// Close ends the subscription, and a Receive that waits.
func (sub *Subscription) Close() error {
	sub.ping.Stop()
	return sub.conn.Close()
}

// send sends the command once for each channel, so that each has an answer of
// its own.
func (sub *Subscription) send(command string, channels ...string) error {
	sub.sending.Lock()
	defer sub.sending.Unlock()
	for _, channel := range channels {
		var args []any
		if channel != "" {
			args = []any{channel}
		}
		if err := sub.conn.Send(command, args...); err != nil {
			return err
		}
		sub.unanswered = append(sub.unanswered, request{command, channel})
	}
	return sub.conn.Flush()
}

// Receive waits for the next event. After an error the subscription is of no
// more use.
func (sub *Subscription) Receive() (Event, error) {
	for {
		sub.ping.Reset(sub.silent)
		reply, err := redis.ReceiveWithTimeout(sub.conn, sub.silent+pongWithin)
		if sub.conn.Err() != nil {
			sub.ping.Stop()
			return Event{}, sub.conn.Err()
		}
		if err != nil { // Redis's no to what was asked first
			asked := sub.answered()
			switch {
			case sub.store.isElsewhere(err):
				return Event{}, err
			case asked.command == sub.words.subscribe:
				return Event{Channel: asked.channel, Refused: err}, nil
			}
			continue
		}
		kind, channel, data, err := notification(reply)
		if err != nil {
			return Event{}, err
		}
		switch kind {
		case sub.words.message:
			return Event{Channel: channel, Data: data}, nil
		case sub.words.subscribed:
			sub.answered()
			return Event{Channel: channel, Subscribed: true}, nil
		}
		if asked := sub.answered(); kind == sub.words.unsubscribed && (asked != request{sub.words.unsubscribe, channel}) {
			return Event{}, errMoved
		}
	}
}

// answered is the request that the answer which has just come belongs to.
func (sub *Subscription) answered() request {
	sub.sending.Lock()
	defer sub.sending.Unlock()
	if len(sub.unanswered) == 0 {
		return request{}
	}
	first := sub.unanswered[0]
	sub.unanswered = sub.unanswered[1:]
	return first
}

// notification takes apart what Redis sends to a subscriber: {kind, channel,
// data}, {"pong", ""}, or PONG while there is no channel.
func notification(reply any) (kind, channel string, data []byte, err error) {
	if pong, ok := reply.(string); ok {
		return pong, "", nil, nil
	}
	parts, err := redis.Values(reply, nil)
	if err != nil || len(parts) < 2 {
		return "", "", nil, fmt.Errorf("redis told a subscriber %.200q", reply)
	}
	if len(parts) == 3 {
		data, _ = parts[2].([]byte) // else it is a number of channels
	}
	_, err = redis.Scan(parts, &kind, &channel)
	return kind, channel, data, err
}

// ReadWake is what a message on a waiter's channel says: of which topic there are jobs, and how many.
func ReadWake(message []byte) (topic string, jobs int) {
	count, topic, _ := strings.Cut(string(message), " ")
	jobs, _ = strconv.Atoi(count)
	return topic, max(jobs, 1)
}
