package store

import (
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
)

// TestWithoutPermission runs the scripts that could lose a job as a user who may
// do everything but one of their commands: Redis says no, and nothing has changed.
func TestWithoutPermission(t *testing.T) {
	t.Parallel()
	b, server := onRedis(t)
	b.do(t, "ACL", "SETUSER", "u", "on", ">p", "~*", "&*", "+@all")
	user := New(Pool{&redis.Pool{Dial: func() (redis.Conn, error) {
		return redis.Dial("tcp", server.Addr, redis.DialUsername("u"), redis.DialPassword("p"))
	}}}, DefaultPrefix)
	ctx := t.Context()
	seed := [][]command{waits("w", "t", 60*second), waits("d", "t", -second), ready("r", "t"), ready("s", "t"), {{"ZADD", "delayer:job_pool", -second, "orphan"}}}
	for _, c := range []struct {
		name     string
		commands string // all that the script uses
		call     func() error
	}{
		{"push", "time exists zcount hset pexpire zadd", func() error { return user.Push(ctx, Job{"new", "t", "b"}, Due{After: time.Hour}, kept, Replace) }},
		{"push of what is ready", "hget zscore", func() error { return user.Push(ctx, Job{"r", "t", "b"}, Due{After: time.Hour}, kept, Replace) }},
		{"push without a delay", "type lpush zrem", func() error { return user.Push(ctx, Job{"new", "t", "b"}, Due{}, kept, Replace) }},
		{"take", "lrange hmget zmscore pttl rpop del", func() error { _, _, err := user.Take(ctx, []string{"t"}); return err }},
	} {
		for command := range strings.FieldsSeq("evalsha " + c.commands) {
			t.Run(c.name+" without "+command, func(t *testing.T) {
				b.seed(t, seed...)
				was := b.state(t)
				b.do(t, "ACL", "SETUSER", "u", "+@all", "-"+command)
				if err := c.call(); !Refused(err) {
					t.Errorf("error %v, want one that Refused knows", err)
				}
				b.expect(t, was)
			})
		}
	}
}
