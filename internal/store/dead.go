package store

import (
	"context"
	"math"
	"strconv"
	"time"

	"github.com/gomodule/redigo/redis"
)

var (
	deadScript       = newScript("dead")
	requeueScript    = newScript("requeue")
	dropDeadScript   = newScript("drop_dead")
	expireDeadScript = newScript("expire_dead")
)

// DeadLetter is a job that is kept aside.
type DeadLetter struct {
	Job
	Attempts int
	Reason   string    // why it is one
	Error    string    // of the last attempt, if one is known
	Died     time.Time // by Redis's clock, in ms

	MaxAttempts int           // 0 if the job didn't say
	TTR         time.Duration // 0 if the job didn't say
}

// Dead reads up to n of the topic's dead letters, the newest first, beginning behind
// the last one of the page before; nil for the first page. It returns nil when there
// are no more. A letter without a topic has been deleted by Redis, or by hand.
func (s *Store) Dead(ctx context.Context, topic string, n int, after *DeadLetter) ([]DeadLetter, error) {
	id, died := "", int64(0)
	if after != nil {
		id, died = after.ID, after.Died.UnixMilli()
	}
	reply, err := redis.Values(s.one(ctx, deadScript, []string{s.keys.DeadTopics(), s.keys.DeadLetters(topic)}, n, id, died))
	if err != nil {
		return nil, err
	}
	var letters []DeadLetter
	for _, entry := range reply {
		fields, _ := entry.([]any)
		var d DeadLetter
		var died string
		var ttr int64
		if _, err := redis.Scan(fields, &d.ID, &died, &d.Topic, &d.Body, &d.Attempts, &d.Reason, &d.Error, &d.MaxAttempts, &ttr); err != nil {
			return nil, errReply("dead", reply)
		}
		ms, err := strconv.ParseFloat(died, 64)
		if err != nil {
			return nil, errReply("dead", reply)
		}
		d.Died, d.TTR = time.UnixMilli(int64(ms)), time.Duration(ttr)*time.Millisecond
		letters = append(letters, d)
	}
	return letters, nil
}

// Requeue makes ready jobs of dead letters again, at most 1,000, which are kept for
// the lifetime from now on. For each it returns what kept it from that: ErrNotFound, ErrExists
// if there is a job of its ID, or an error of Redis.
func (s *Store) Requeue(ctx context.Context, ids []string, lifetime time.Duration) ([]error, error) {
	reply, err := s.one(ctx, requeueScript, []string{s.keys.JobPool()}, appendAll([]any{milliseconds(lifetime)}, ids)...)
	if err != nil {
		return nil, err
	}
	return errorsAt("requeue", reply, len(ids), ErrNotFound, ErrExists)
}

// DropDead deletes dead letters of the topic, at most 1,000, and returns how many there were. Those
// that were buried after until stay, if that is not zero: they are not the ones that were seen.
func (s *Store) DropDead(ctx context.Context, topic string, ids []string, until time.Time) (int, error) {
	newest := math.MaxFloat64
	if !until.IsZero() {
		newest = float64(until.UnixMicro()) / 1000
	}
	keys := []string{s.keys.DeadTopics(), s.keys.DeadLetters(topic)}
	args := []any{topic, strconv.FormatFloat(newest, 'g', -1, 64)}
	return redis.Int(s.one(ctx, dropDeadScript, keys, appendAll(args, ids)...))
}

// maxExpired is how many dead letters one call deletes at most.
const maxExpired = 250

// TopicIDs are some IDs of one topic.
type TopicIDs struct {
	Topic string
	IDs   IDs
}

// DeadPlace is how far calls of ExpireDead have got: behind which topic, and when the first of
// them was made. The zero one is the beginning.
type DeadPlace struct {
	Place
	began string
}

// ExpireDead deletes some of the dead letters that are older than maxAge, or more than
// most of a topic (0 is no limit), the oldest first. It looks at some topics; the next call goes on
// at next, which is zero when all is done. With an error of Redis that concerns some topics only,
// next and expired are right all the same.
func (s *Store) ExpireDead(ctx context.Context, maxAge time.Duration, most int, from DeadPlace) (expired []TopicIDs, next DeadPlace, err error) {
	reply, err := redis.Values(s.one(ctx, expireDeadScript, []string{s.keys.DeadTopics()},
		milliseconds(maxAge), most, maxExpired, from.At, from.ID, from.began))
	if err != nil {
		return nil, DeadPlace{}, err
	}
	var why string
	rest, err := redis.Scan(reply, &next.At, &next.ID, &next.began, &why)
	if err != nil {
		return nil, DeadPlace{}, errReply("expire_dead", reply)
	}
	if next.At == "" {
		next = DeadPlace{}
	}
	for ; len(rest) >= 2; rest = rest[2:] {
		topic, _ := rest[0].([]byte)
		ids, _ := rest[1].([]any)
		expired = append(expired, TopicIDs{string(topic), ids})
	}
	return expired, next, reason(why)
}
