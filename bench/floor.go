package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"
)

// floorMove does in one script all that a move requires of Redis, ARGV[2] jobs per call, without waking
// clients.
var floorMove = redis.NewScript(1, `
local ids = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ARGV[1], 'LIMIT', 0, ARGV[2])
local of_topic = {}
for _, id in ipairs(ids) do
  local topic = redis.call('HGET', 'delayer:job_bucket:' .. id, 'topic')
  local list = of_topic[topic]
  if not list then list = {} of_topic[topic] = list end
  list[#list + 1] = id
end
if #ids > 0 then redis.call('ZREM', KEYS[1], unpack(ids)) end
for topic, list in pairs(of_topic) do redis.call('LPUSH', 'delayer:ready_queue:' .. topic, unpack(list)) end
return #ids`)

// floorMoveAll moves all due jobs with floorMove and returns their number.
func floorMoveAll(conn redis.Conn, batch int) (int, error) {
	total := 0
	for {
		n, err := redis.Int(floorMove.Do(conn, poolKey, now(), batch))
		total += n
		if err != nil || n == 0 {
			return total, err
		}
	}
}

func now() string { return fmt.Sprintf("%.3f", float64(time.Now().UnixMilli())/1000) }

// pipelineMove does the same without a script, like the original's server with a pipeline: look up, HGET for
// each, MULTI. batch -1 means no limit.
func pipelineMove(conn redis.Conn, batch int) (int, error) {
	total := 0
	for {
		ids, err := redis.Values(conn.Do("ZRANGEBYSCORE", poolKey, "-inf", now(), "LIMIT", 0, batch))
		if err != nil || len(ids) == 0 {
			return total, err
		}
		for _, id := range ids {
			conn.Send("HMGET", bucketPrefix+string(id.([]byte)), "topic")
		}
		topics, err := redis.Values(conn.Do(""))
		if err != nil {
			return total, err
		}
		ofTopic := map[string][]any{}
		for i, t := range topics {
			name, err := redis.Strings(t, nil)
			if err != nil {
				return total, err
			}
			if ofTopic[name[0]] == nil {
				ofTopic[name[0]] = []any{readyPrefix + name[0]}
			}
			ofTopic[name[0]] = append(ofTopic[name[0]], ids[i])
		}
		for _, list := range ofTopic {
			conn.Send("MULTI")
			conn.Send("ZREM", append([]any{poolKey}, list[1:]...)...)
			conn.Send("LPUSH", list...)
			conn.Send("EXEC")
		}
		if _, err := conn.Do(""); err != nil {
			return total, err
		}
		total += len(ids)
		if batch < 0 || len(ids) < batch {
			return total, nil
		}
	}
}

// floorPushScript stores jobs: KEYS pool; ARGV bucket prefix, ms to live, score, topic, then the ID and body
// of each.
var floorPushScript = redis.NewScript(1, `
for i = 5, #ARGV, 2 do
  local bucket = ARGV[1] .. ARGV[i]
  redis.call('HSET', bucket, 'topic', ARGV[4], 'body', ARGV[i + 1])
  redis.call('PEXPIRE', bucket, ARGV[2])
  redis.call('ZADD', KEYS[1], ARGV[3], ARGV[i])
end`)

// floorTakeScript takes ARGV[2] jobs: KEYS ready queue; ARGV bucket prefix.
var floorTakeScript = redis.NewScript(1, `
local ids = redis.call('RPOP', KEYS[1], ARGV[2])
local reply, buckets = {}, {}
for i, id in ipairs(ids or {}) do
  local bucket = ARGV[1] .. id
  local job = redis.call('HMGET', bucket, 'topic', 'body')
  buckets[i] = bucket
  reply[#reply + 1] = id
  reply[#reply + 1] = job[1]
  reply[#reply + 1] = job[2]
end
if #buckets > 0 then redis.call('DEL', unpack(buckets)) end
return reply`)

// score returns the due time in Unix seconds, rounded up to milliseconds.
func score(due time.Time) string {
	return fmt.Sprintf("%.3f", float64(due.Add(time.Millisecond-1).UnixMilli())/1000)
}

// floorPush stores jobs, given as IDs and bodies, with one script.
func floorPush(conn redis.Conn, due time.Time, jobs ...any) error {
	args := append([]any{poolKey, bucketPrefix, lifetime.Milliseconds(), score(due), topic}, jobs...)
	_, err := floorPushScript.Do(conn, args...)
	return err
}

// floorPushJobs stores the jobs from..from+n-1 with one script.
func floorPushJobs(conn redis.Conn, from, n int, due time.Time) error {
	var jobs []any
	for i := from; i < from+n; i++ {
		jobs = append(jobs, id(int64(i)), body(int64(i)))
	}
	return floorPush(conn, due, jobs...)
}

// pipelinePushJobs stores them with plain commands in one pipeline.
func pipelinePushJobs(conn redis.Conn, from, n int, due time.Time) error {
	for i := from; i < from+n; i++ {
		bucket := bucketPrefix + id(int64(i))
		conn.Send("HSET", bucket, "topic", topic, "body", body(int64(i)))
		conn.Send("PEXPIRE", bucket, lifetime.Milliseconds())
		conn.Send("ZADD", poolKey, score(due), id(int64(i)))
	}
	_, err := conn.Do("")
	return err
}

// floorTake takes up to n jobs with one script and returns their bodies.
func floorTake(conn redis.Conn, n int) (bodies []string, err error) {
	reply, err := redis.Strings(floorTakeScript.Do(conn, readyPrefix+topic, bucketPrefix, n))
	for i := 2; i < len(reply); i += 3 {
		bodies = append(bodies, reply[i])
	}
	return bodies, err
}

// pipelineTake takes them with plain commands: RPOP n, then HMGET and DEL for each in one pipeline.
func pipelineTake(conn redis.Conn, n int) (bodies []string, err error) {
	ids, err := redis.Strings(conn.Do("RPOP", readyPrefix+topic, n))
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		conn.Send("HMGET", bucketPrefix+id, "topic", "body")
		conn.Send("DEL", bucketPrefix+id)
	}
	replies, err := redis.Values(conn.Do(""))
	for i := 0; i < len(replies); i += 2 {
		job, err := redis.Strings(replies[i], nil)
		if err != nil {
			return nil, err
		}
		bodies = append(bodies, job[1])
	}
	return bodies, err
}

// floorPeer is the floor as a Peer: one script per push and per take, and a move every millisecond.
type floorPeer struct {
	redis     *Redis
	consuming sync.WaitGroup
}

func (p *floorPeer) Round(_, due time.Time) time.Time { return due }

func (p *floorPeer) Close() { p.consuming.Wait() }

func (p *floorPeer) Push(_ context.Context, n int64, body string, due time.Time) error {
	conn := p.redis.Pool.Get()
	defer conn.Close()
	return floorPush(conn, due, id(n), body)
}

func (p *floorPeer) Consume(ctx context.Context, workers int, got func(body string)) {
	p.consuming.Go(func() {
		conn := p.redis.Pool.Get()
		defer conn.Close()
		for ctx.Err() == nil {
			floorMoveAll(conn, 1000)
			time.Sleep(time.Millisecond)
		}
	})
	for range workers {
		p.consuming.Go(func() {
			conn := p.redis.Pool.Get()
			defer conn.Close()
			for ctx.Err() == nil {
				bodies, _ := floorTake(conn, 1)
				if len(bodies) == 0 {
					time.Sleep(time.Millisecond)
					continue
				}
				got(bodies[0])
			}
		})
	}
}
