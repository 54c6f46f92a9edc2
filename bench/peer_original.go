package main

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/server"
)

// originalPush is the push of the original's clients.
func originalPush(conn redis.Conn, id, body string, due time.Time) error {
	bucket := bucketPrefix + id
	conn.Send("MULTI")
	conn.Send("HMSET", bucket, "topic", topic, "body", body)
	conn.Send("EXPIRE", bucket, int(time.Until(due).Seconds())+int(lifetime.Seconds()))
	conn.Send("ZADD", poolKey, due.Unix(), id)
	replies, err := redis.Values(conn.Do("EXEC"))
	if err == nil && len(replies) != 3 {
		err = fmt.Errorf("EXEC answered %v", replies)
	}
	return err
}

// originalRead is what the original's clients do with a popped ID.
func originalRead(conn redis.Conn, id string) (body string, err error) {
	job, err := redis.StringMap(conn.Do("HGETALL", bucketPrefix+id))
	if err != nil {
		return "", err
	}
	_, err = conn.Do("DEL", bucketPrefix+id)
	return job["body"], err
}

// originalPop is the pop of the original's clients; redis.ErrNil if nothing is ready.
func originalPop(conn redis.Conn) error {
	id, err := redis.String(conn.Do("RPOP", readyPrefix+topic))
	if err == nil {
		_, err = originalRead(conn, id)
	}
	return err
}

// original has the original's commands with our server.
type original struct {
	redis     *Redis
	pool      *redis.Pool
	served    *client.Redis
	consuming sync.WaitGroup
}

func newOriginal(r *Redis) *original {
	return &original{redis: r, pool: newPool("tcp", r.addr, 32), served: must(client.Connect(client.PoolOptions{Addr: r.addr}))}
}

func (p *original) Round(_, due time.Time) time.Time { return nextSecond(due) }

// Close waits for blocked consumers, which would otherwise take the next Peer's jobs.
func (p *original) Close() {
	p.consuming.Wait()
	p.pool.Close()
	p.served.Close()
}

func (p *original) Push(_ context.Context, n int64, body string, due time.Time) error {
	conn := p.pool.Get()
	defer conn.Close()
	return originalPush(conn, id(n), body, due)
}

func (p *original) Consume(ctx context.Context, workers int, got func(body string)) {
	go must(server.New(p.served, server.Options{Logger: slog.New(slog.DiscardHandler)})).Run(ctx)
	for range workers {
		p.consuming.Go(func() {
			conn := p.pool.Get()
			defer conn.Close()
			for ctx.Err() == nil {
				popped, err := redis.Strings(conn.Do("BRPOP", readyPrefix+topic, 1))
				if err != nil {
					continue
				}
				if body, err := originalRead(conn, popped[1]); err == nil {
					got(body)
				}
			}
		})
	}
}
