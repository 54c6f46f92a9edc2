package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/gomodule/redigo/redis"
)

// delayQueue sends Redis the commands of ouqiang's delay-queue, on a pool with its settings, which sends a
// PING before each command. But it does not log, and it stores jobs as JSON instead of MessagePack.
type delayQueue struct {
	pool    *redis.Pool
	buckets chan string // in turn
}

// delayQueueJob is a stored job. Delay is its due time in Unix seconds.
type delayQueueJob struct {
	Topic string `json:"topic"`
	ID    string `json:"id"`
	Delay int64  `json:"delay"`
	TTR   int64  `json:"ttr"`
	Body  string `json:"body"`
}

const delayQueueReady = "dq_queue_"

func newDelayQueue(addr string) *delayQueue {
	d := &delayQueue{
		pool: &redis.Pool{
			MaxIdle: 10, IdleTimeout: 5 * time.Minute, Wait: true,
			Dial: func() (redis.Conn, error) { return redis.Dial("tcp", addr, redis.DialReadTimeout(3*time.Minute)) },
			TestOnBorrow: func(c redis.Conn, _ time.Time) error {
				_, err := c.Do("PING")
				return err
			},
		},
		buckets: make(chan string),
	}
	for n := range 3 {
		go d.tick(fmt.Sprint("dq_bucket_", n+1))
	}
	go func() {
		for n := 0; ; n = (n + 1) % 3 {
			d.buckets <- fmt.Sprint("dq_bucket_", n+1)
		}
	}()
	return d
}

func (d *delayQueue) do(command string, args ...any) (any, error) {
	conn := d.pool.Get()
	defer conn.Close()
	return conn.Do(command, args...)
}

// job returns the job with that ID, or nil.
func (d *delayQueue) job(id string) (*delayQueueJob, error) {
	text, err := redis.Bytes(d.do("GET", id))
	if err == redis.ErrNil {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	j := &delayQueueJob{}
	return j, json.Unmarshal(text, j)
}

// tick moves the bucket's due jobs once a second.
func (d *delayQueue) tick(bucket string) {
	for now := range time.Tick(time.Second) {
		for d.moveOne(bucket, now.Unix()) {
		}
	}
}

// moveOne reports whether the next job may be due too.
func (d *delayQueue) moveOne(bucket string, now int64) bool {
	first, err := redis.Strings(d.do("ZRANGE", bucket, 0, 0, "WITHSCORES"))
	if err != nil || len(first) == 0 {
		return false
	}
	var due int64
	fmt.Sscan(first[1], &due)
	if due > now {
		return false
	}
	if j, err := d.job(first[0]); err == nil && j != nil {
		if _, err := d.do("RPUSH", delayQueueReady+j.Topic, j.ID); err != nil {
			return false
		}
	}
	_, err = d.do("ZREM", bucket, first[0])
	return err == nil
}

func (d *delayQueue) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var asked delayQueueJob
	body, err := io.ReadAll(r.Body)
	if err == nil {
		err = json.Unmarshal(body, &asked)
	}
	var answer struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
		Data    any    `json:"data"`
	}
	if err == nil {
		answer.Data, err = d.route(r.URL.Path, asked)
	}
	if err != nil {
		answer.Code, answer.Message = 1, err.Error()
	}
	text, _ := json.Marshal(answer)
	w.Write(text)
}

func (d *delayQueue) route(path string, asked delayQueueJob) (any, error) {
	switch path {
	case "/push":
		asked.Delay += time.Now().Unix()
		text, _ := json.Marshal(asked)
		if _, err := d.do("SET", asked.ID, text); err != nil {
			return nil, err
		}
		_, err := d.do("ZADD", <-d.buckets, asked.Delay, asked.ID)
		return nil, err
	case "/pop":
		popped, err := redis.Strings(d.do("BLPOP", delayQueueReady+asked.Topic, 178))
		if err != nil {
			return nil, err
		}
		j, err := d.job(popped[1])
		if err != nil || j == nil {
			return nil, err
		}
		_, err = d.do("ZADD", <-d.buckets, time.Now().Unix()+j.TTR, j.ID)
		return map[string]string{"id": j.ID, "body": j.Body}, err
	case "/finish":
		_, err := d.do("DEL", asked.ID)
		return nil, err
	}
	return nil, fmt.Errorf("there is no %s", path)
}
