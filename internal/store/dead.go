package store

import (
	"cmp"
	"context"
	"math"
	"strconv"
	"time"

	"github.com/gomodule/redigo/redis"
)

var (
	requeueScript    = newScript("requeue")
	dropDeadScript   = newScript("drop_dead")
	expireDeadScript = newScript("expire_dead")
)

// Requeue turns up to 1,000 dead letters into ready jobs again, with this lifetime from now on. Each ID has its own error: ErrNotFound,
// ErrExists if a job has the ID, or an error of Redis.
func (s *Store) Requeue(ctx context.Context, ids []string, lifetime time.Duration) ([]error, error) {
	args := appendAll(append(arguments(1+len(ids), s.jobPool), milliseconds(lifetime)), ids)
	return newCall(s, requeueScript, args, func(reply any) ([]error, error) {
		return errorsAt(reply, len(ids))
	}).Do(ctx)
}

// DropDead deletes up to 1,000 dead letters of the topic and returns their number. Letters buried after until stay, as the caller has not
// seen them; zero means no such bound.
func (s *Store) DropDead(ctx context.Context, topic string, ids []string, until time.Time) (int, error) {
	newest := math.MaxFloat64
	if !until.IsZero() {
		newest = float64(until.UnixMicro()) / 1000
	}
	args := arguments(2+len(ids), s.keys.DeadTopics(), s.keys.DeadLetters(topic))
	args = appendAll(append(args, topic, strconv.FormatFloat(newest, 'g', -1, 64)), ids)
	return newCall(s, dropDeadScript, args, func(reply any) (int, error) { return redis.Int(reply, nil) }).Do(ctx)
}

// maxExpired is the maximum number of dead letters that one call of ExpireDead deletes.
const maxExpired = 250

// TopicIDs are some IDs of one topic.
type TopicIDs struct {
	Topic string
	IDs   IDs
}

// topicIDsOf reads {topic, ids, topic, ids, …}.
func topicIDsOf(reply []any) (list []TopicIDs) {
	for ; len(reply) >= 2; reply = reply[2:] {
		topic, _ := reply[0].([]byte)
		ids, _ := reply[1].([]any)
		list = append(list, TopicIDs{string(topic), ids})
	}
	return list
}

// DeadPosition is the progress of ExpireDead: the last topic, and the time of the first call. The zero value is the beginning.
type DeadPosition struct {
	Position
	began string
}

// ExpireDead deletes some of the dead letters that are older than maxAge, or exceed most of a topic (0: no limit), the oldest first. The
// next call starts at next, which is zero at the end. If an error of Redis concerns only some topics, next and expired are valid all the
// same.
func (s *Store) ExpireDead(ctx context.Context, maxAge time.Duration, most int, from DeadPosition) (expired []TopicIDs, next DeadPosition, err error) {
	args := append(arguments(6, s.keys.DeadTopics()), milliseconds(maxAge), most, maxExpired, from.At, from.ID, from.began)
	var why string
	expired, err = newCall(s, expireDeadScript, args, func(reply any) ([]TopicIDs, error) {
		rest, err := scan(reply, &next.At, &next.ID, &next.began, &why)
		return topicIDsOf(rest), err
	}).Do(ctx)
	if next.At == "" {
		next = DeadPosition{}
	}
	return expired, next, cmp.Or(err, reason(why))
}

// DeadLately has numbers of a topic's dead letters by when they were buried.
type DeadLately struct {
	Newest time.Time // time of the newest; zero if there is none, or it can't be read
	Since  int       // number buried since the given time; -1 if it can't be read
}

// DeadLately returns them for each of the topics.
func (s *Store) DeadLately(ctx context.Context, topics []string, since time.Time) ([]DeadLately, error) {
	all := make([]DeadLately, len(topics))
	if len(topics) == 0 {
		return all, nil
	}
	err := s.onNode(ctx, func(conn redis.Conn) error {
		for _, topic := range topics {
			key := s.keys.DeadLetters(topic)
			conn.Send("ZRANGE", key, -1, -1, "WITHSCORES")
			conn.Send("ZCOUNT", key, since.UnixMilli(), "+inf")
		}
		replies, err := redis.Values(redis.DoContext(conn, ctx, ""))
		if err != nil {
			return err
		}
		for i := range all {
			if newest, err := redis.Strings(replies[2*i], nil); OfOneSlot(err) {
				return err
			} else if len(newest) == 2 {
				ms, _ := strconv.ParseFloat(newest[1], 64)
				all[i].Newest = time.UnixMilli(int64(ms))
			}
			if n, err := redis.Int(replies[2*i+1], nil); err == nil {
				all[i].Since = n
			} else {
				all[i].Since = -1
			}
		}
		return nil
	})
	return all, err
}
