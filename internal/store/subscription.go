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
	// pongWithin is the maximum time for the answer to a PING. Any other message counts as well.
	pongWithin = 3 * time.Second
)

// Subscription receives the messages on its channels, on a connection of its own, and detects a dead one.
//
// Receive is for one goroutine. Other goroutines may call Add, Remove and Close meanwhile.
type Subscription struct {
	store  *Store
	conn   redis.Conn
	words  vocabulary
	ping   *time.Timer
	silent time.Duration // silence before a PING

	sending    sync.Mutex // guards the fields below, and the connection's writing side
	unanswered []request  // in the order of the answers
}

// vocabulary has the names of commands and replies.
type vocabulary struct{ subscribe, unsubscribe, subscribed, unsubscribed, message string }

var (
	plainWords = vocabulary{"SUBSCRIBE", "UNSUBSCRIBE", "subscribe", "unsubscribe", "message"}
	slotWords  = vocabulary{"SSUBSCRIBE", "SUNSUBSCRIBE", "ssubscribe", "sunsubscribe", "smessage"} // of channels of slots
)

// errMoved ends a Subscription when a node unsubscribes it because the slot of a channel has moved.
var errMoved = errors.New("the slot of a channel is on another node now")

// request is a command with one answer.
type request struct{ command, channel string }

// Event is a message or a change on one of a Subscription's channels.
type Event struct {
	Channel string
	// Subscribed is true once for each channel: messages published from now on are received.
	Subscribed bool
	// Refused is the error if this user may not subscribe to the channel. Other channels are not affected.
	Refused error
	// Data is a message.
	Data []byte
}

// Subscribe opens a connection and subscribes to the channels, if any. After a silence of this length it sends a PING. ctx bounds the dial only.
func (s *Store) Subscribe(ctx context.Context, silent time.Duration, channels ...string) (*Subscription, error) {
	conn, err := s.source.Dial(ctx)
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

// Add subscribes to further channels. Receive reports when that is done.
func (sub *Subscription) Add(channels ...string) error {
	return sub.send(sub.words.subscribe, channels...)
}

// Remove unsubscribes from channels. Messages may still arrive.
func (sub *Subscription) Remove(channels ...string) error {
	return sub.send(sub.words.unsubscribe, channels...)
}

// Close ends the subscription, and a Receive that waits.
func (sub *Subscription) Close() error {
	sub.ping.Stop()
	return sub.conn.Close()
}

// send sends the command once for each channel, so that each has a reply.
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

// Receive waits for the next event. After an error the subscription is useless.
func (sub *Subscription) Receive() (Event, error) {
	for {
		sub.ping.Reset(sub.silent)
		reply, err := redis.ReceiveWithTimeout(sub.conn, sub.silent+pongWithin)
		if sub.conn.Err() != nil {
			sub.ping.Stop()
			return Event{}, sub.conn.Err()
		}
		if err != nil { // Redis refuses the oldest request
			asked := sub.answered()
			switch {
			case sub.store.hasMoved(err) || OfOneSlot(err):
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

// answered returns the request that the last reply answers.
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

// notification parses a reply to a subscriber: {kind, channel, data}, {"pong", ""}, or PONG while there is no channel.
func notification(reply any) (kind, channel string, data []byte, err error) {
	if pong, ok := reply.(string); ok {
		return pong, "", nil, nil
	}
	parts, err := redis.Values(reply, nil)
	if err != nil || len(parts) < 2 {
		return "", "", nil, fmt.Errorf("redis told a subscriber %.200q", reply)
	}
	if len(parts) == 3 {
		data, _ = parts[2].([]byte) // otherwise a number of channels
	}
	_, err = redis.Scan(parts, &kind, &channel)
	return kind, channel, data, err
}

// ReadWake parses a message on a waiter's channel: a topic, and its number of jobs.
func ReadWake(message []byte) (topic string, jobs int) {
	count, topic, _ := strings.Cut(string(message), " ")
	jobs, _ = strconv.Atoi(count)
	return topic, max(jobs, 1)
}
