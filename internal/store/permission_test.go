package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// Scripts ask for their commands with as many arguments as these take: to Redis 8, another number is an unknown command.
func TestCommandsAreAskedForWithTheirArguments(t *testing.T) {
	t.Parallel()
	b, _ := onRedis(t)
	asked := regexp.MustCompile(`not_permitted\('([A-Z]+)'((?:, [^,()]+)*)\)`)
	count := 0
	for _, pattern := range []string{"lua/*.lua", "lua/parts/*.lua"} {
		files, err := filepath.Glob(pattern)
		check(t, err)
		for _, file := range files {
			text, err := os.ReadFile(file)
			check(t, err)
			for _, call := range asked.FindAllStringSubmatch(string(text), -1) {
				count++
				info, err := redis.Values(b.Do("COMMAND", "INFO", call[1]), nil)
				check(t, err)
				arity := info[0].([]any)[1].(int64)
				if n := int64(1 + strings.Count(call[2], ",")); arity > 0 && n != arity || n < -arity {
					t.Errorf("%s: %s: %d words, want %d", file, call[0], n, arity)
				}
			}
		}
	}
	if count < 100 {
		t.Errorf("%d commands are asked for", count)
	}
}

// permissionCases are calls of the scripts that could lose a job, and the commands that each requires.
var permissionCases = []struct {
	name     string
	commands string
	call     func(ctx context.Context, user *backend) error
	before   func(t *testing.T, b *backend)
}{
	{"push", "time exists hset pexpire zadd", pushOf("new", time.Hour, Replace), nil},
	{"push of what is ready", "hget zscore hset pexpire zadd", pushOf("r", time.Hour, Replace), nil},
	{"push of what waits", "hget zscore hset pexpire zadd", pushOf("w", time.Hour, Replace), nil},
	{"push without a delay", "type lpush zrem zcard hset pexpire", pushOf("new", 0, Replace), nil},
	{"push without a delay of what waits", "type lpush zrem hset pexpire", pushOf("w", 0, Replace), nil},
	{"push to a group", "time zscore hmget hset pexpire zadd", func(ctx context.Context, user *backend) error { return pushToGroup(ctx, user, "k", 0) }, nil},
	{"push to a new group", "time hmget exists hset pexpire zadd", func(ctx context.Context, user *backend) error { return pushToGroup(ctx, user, "new", 0) }, nil},
	{"push to a group that is full then", "zscore hmget zrem hset pexpire del zadd", func(ctx context.Context, user *backend) error { return pushToGroup(ctx, user, "k", 2) }, nil},
	{"reschedule", "time hget zscore pttl type zadd pexpire", func(ctx context.Context, user *backend) error { return user.Reschedule(ctx, "w", time.Hour) }, nil},
	{"reschedule of what is ready", "time hget zscore pttl type zadd pexpire", func(ctx context.Context, user *backend) error { return user.Reschedule(ctx, "r", time.Hour) }, nil},
	{"reschedule to now", "time hget zscore pttl type zadd zrem lpush pexpire", func(ctx context.Context, user *backend) error { return user.Reschedule(ctx, "w", 0) }, nil},
	{"remove", "hget zscore del zrem", func(ctx context.Context, user *backend) error { _, err := user.remove(ctx, "w"); return err }, nil},
	{"remove of what is ready", "hget del zrem", func(ctx context.Context, user *backend) error { _, err := user.remove(ctx, "r"); return err }, nil},
	{"get", "hmget pttl zscore", func(ctx context.Context, user *backend) error { _, err := user.Get(ctx, "w"); return err }, nil},
	{"pop", "lrange hmget zmscore rpop del", popOf("t"), nil},
	{"pop of a stray", "lrange hmget zmscore rpop zadd", popOf("stray"), nil},
	{"purge", "lrange hmget zmscore rpop del", func(ctx context.Context, user *backend) error { _, _, err := user.Purge(ctx, "t", 10); return err }, nil},
	{"purge of a stray", "lrange hmget zmscore rpop zadd", func(ctx context.Context, user *backend) error { _, _, err := user.Purge(ctx, "stray", 10); return err }, nil},
	{"browse", "zrange hmget", browseOf("waiting", ""), nil},
	{"browse of what is ready", "lrange zscore hmget", browseOf("ready", "t"), nil},
	{"forecast", "time zcount", func(ctx context.Context, user *backend) error {
		_, _, err := user.Forecast(ctx, time.Time{}, []int64{0, 1000})
		return err
	}, nil},
	{"schedule", "time hmget hset zadd", func(ctx context.Context, user *backend) error {
		_, _, err := user.PutSchedule(ctx, aSchedule("new"), time.Now())
		return err
	}, nil},
	{"unschedule", "hmget del zrem", func(ctx context.Context, user *backend) error { return user.RemoveSchedule(ctx, "s", "") }, nil},
	{"run of a schedule", "time hmget zadd type lpush pexpire hset exists", func(ctx context.Context, user *backend) error { _, err := user.RunSchedule(ctx, "s"); return err }, nil},
	{"run of a schedule whose last job is reserved", "time hmget zadd type lpush pexpire hset exists pttl", func(ctx context.Context, user *backend) error { _, err := user.RunSchedule(ctx, "f"); return err }, nil},
	{"sample", "time zcard zrange hget", func(ctx context.Context, user *backend) error { _, err := user.Sample(ctx, 10, 0, 10, 0); return err }, nil},
	{"sample of what is due", "time zcount zrange hget", func(ctx context.Context, user *backend) error { return errOf(user.Sample(ctx, 10, 0, 10, time.Hour)) }, nil},
	{"push that follows, with another", "pttl", func(ctx context.Context, user *backend) error {
		follower := Delayed{Job{ID: "x", Topic: "t", Body: "new"}, Due{}, Terms{Lifetime: kept, Policy: Follow}, nil}
		other := aJob("new", "t", time.Hour)
		errs, err := user.PushAll([]Delayed{other, follower}).Do(ctx)
		return cmp.Or(err, errors.Join(errs...))
	}, func(t *testing.T, b *backend) {
		b.do(t, "DEL", "delayer:ready_queue:t")
		for _, c := range ready("x", "t") {
			b.do(t, c[0].(string), c[1:]...)
		}
		b.hold(t, "t", time.Minute)
	}},
	{"pop of what is followed", "hset hdel pttl pexpire del", popOf("t"), followedReady},
	{"reserve of what is followed and exhausted", "", func(ctx context.Context, user *backend) error { return reserves(ctx, user.Store) }, followedReady},
	{"pause", "exists hset rename", func(ctx context.Context, user *backend) error { return errOf(user.Pause("t", time.Hour, "").Do(ctx)) }, nil},
	{"resume", "exists hdel rename", func(ctx context.Context, user *backend) error { _, err := user.Resume("t").Do(ctx); return err }, pauseT},
	{"step of the pauses", "exists hset", func(ctx context.Context, user *backend) error { _, err := user.KeepPaused("0").Do(ctx); return err }, pauseT},
	{"end of a pause", "exists hdel", func(ctx context.Context, user *backend) error { _, err := user.KeepPaused("0").Do(ctx); return err }, func(t *testing.T, b *backend) {
		pauseT(t, b)
		b.do(t, "HSET", "delayer:paused", "t", "1000 2000 0 0 ")
	}},
	{"limit", "hset", func(ctx context.Context, user *backend) error { return user.Store.limitTo(ctx, Limit{Concurrency: 5}) }, func(t *testing.T, b *backend) {
		b.limitTo(t, Limit{Concurrency: 2})
		b.hold(t, "t", time.Minute)
	}},
	{"pause of a schedule", "hset", func(ctx context.Context, user *backend) error { return user.PauseSchedule(ctx, "s", true) }, nil},
	{"end of a schedule's pause", "hset hdel", func(ctx context.Context, user *backend) error { return user.PauseSchedule(ctx, "s", false) }, func(t *testing.T, b *backend) {
		check(t, b.PauseSchedule(t.Context(), "s", true))
	}},
	{"sweep", "zmscore zcount", func(ctx context.Context, user *backend) error { return errOf(user.Sweep(ctx, Position{})) }, func(t *testing.T, b *backend) {
		b.do(t, "ZADD", "delayer:topics", 1000, "t")
		b.do(t, "ZADD", "delayer:topics_due", 1000, "t")
	}},
	{"sweep of a queue", "time zrange zmscore zcount zadd zrem rpop lrange zrangebyscore", func(ctx context.Context, user *backend) error { return errOf(user.Sweep(ctx, Position{})) }, func(t *testing.T, b *backend) {
		b.do(t, "ZADD", "delayer:topics", 1000, "ghosts")
		b.do(t, "LPUSH", "delayer:ready_queue:ghosts", "ghost")
	}},
	{"repair of schedules", "hmget zmscore", func(ctx context.Context, user *backend) error { return errOf(user.RepairSchedules(ctx, "", true)) }, func(t *testing.T, b *backend) {
		b.do(t, "LPUSH", b.keys.ReadyQueue(ScheduleTopic), ScheduleID("s"), "w")
		b.do(t, "ZREM", "delayer:job_pool", ScheduleID("s"))
	}},
	{"due", "time zcount zrange hget zadd", func(ctx context.Context, user *backend) error { return errOf(user.dueJobs(Query{Limit: 9})) }, nil},
	{"move", "zadd zmscore zrem", func(ctx context.Context, user *backend) error { return errOf(user.move(batch("t", "d"))) }, nil},
	{"drop", "hget zadd zmscore zrem", func(ctx context.Context, user *backend) error { return errOf(user.drop("orphan")) }, nil},
	{"push with Once", "", pushOf("new", time.Hour, Once(time.Minute)), func(t *testing.T, b *backend) { b.do(t, "ZADD", "delayer:once", 1, "over") }},
	{"layout", "hget hset", func(ctx context.Context, user *backend) error { _, err := user.KeepLayout(2).Do(ctx); return err }, nil},
	{"restore", "hset pexpire zadd exists pttl", func(ctx context.Context, user *backend) error {
		_, err := user.Restore([]Record{
			{Kind: RecordWaiting, ID: "{x}n", At: time.Now().Add(time.Hour), TTL: time.Hour, Group: time.Hour, Fields: map[string]string{"topic": "t", "lease": "1 2 3 4"}},
			{Kind: RecordDead, ID: "n", At: time.Now(), TTL: -1, Fields: map[string]string{"topic": "t"}},
			{Kind: RecordOnce, ID: "n", At: time.Now().Add(time.Hour)},
		}, false).Do(ctx)
		return err
	}, nil},
	{"repair of the pool", "zadd", func(ctx context.Context, user *backend) error {
		return errOf(user.FsckPool("0", 10, true, false).Do(ctx))
	}, nil},
}

// The calls of several cases.
func pushOf(id string, after time.Duration, policy Policy) func(context.Context, *backend) error {
	return func(ctx context.Context, user *backend) error {
		return user.push(ctx, Job{ID: id, Topic: "t", Body: "b"}, Due{After: after}, kept, policy)
	}
}

func popOf(topic string) func(context.Context, *backend) error {
	return func(ctx context.Context, user *backend) error {
		_, _, err := user.pop(ctx, []string{topic})
		return err
	}
}

func browseOf(state, topic string) func(context.Context, *backend) error {
	return func(ctx context.Context, user *backend) error {
		return errOf(user.Browse(ctx, Browse{State: state, Topic: topic, Jobs: 10, Entries: 10}))
	}
}

func pushToGroup(ctx context.Context, user *backend, key string, most int) error {
	d := toGroup("t", key, "2", Group{Max: most, Longest: time.Hour})
	d.ID, d.Policy = d.ID+"id", Once(time.Hour)
	return errorOf(user.Push([]Delayed{d}).Do(ctx))
}

// followedReady makes x, whose attempts are used up, ready with a follower.
func followedReady(t *testing.T, b *backend) {
	b.heldX(t)
	b.follow(t, 0)
	b.leaseIsOver(t)
}

func pauseT(t *testing.T, b *backend) {
	b.stand(t, "t", "me")
	made(t, b.Pause("t", time.Hour, ""))
}

// TestWithoutPermission makes calls as a user who lacks one of their commands: Redis refuses the call and nothing changes.
func TestWithoutPermission(t *testing.T) {
	t.Parallel()
	b, user := onRedisAs(t)
	follows := aSchedule("f")
	follows.Overlap = OverlapFollow
	for _, c := range permissionCases {
		b.withoutEach(t, c.name, c.commands, func(t *testing.T) func() error {
			b.seed(t, waits("w", "t", 60*second), waits("d", "t", -second), ready("r", "t"), ready("s", "t"), content("s2", "t"), entry("s2", "stray"),
				content("l", "t"), field("l", "lease", "1 1 0 0"), []command{{"ZADD", "delayer:job_pool", -second, "orphan"}})
			b.grouped(t, toGroup("t", "k", "1", Group{Longest: time.Hour}))
			b.put(t, aSchedule("s"), time.Now().Add(time.Hour))
			b.put(t, follows, time.Now().Add(time.Hour))
			b.do(t, "HSET", "delayer:job_bucket:"+ScheduleID("f"), "last", "l")
			if c.before != nil {
				c.before(t, b)
			}
			return func() error { return c.call(t.Context(), user) }
		})
	}
}

// TestFireWithoutPermission fires a schedule as such a user. Redis refuses the call, or the schedule is deferred; its occurrence is not
// lost.
func TestFireWithoutPermission(t *testing.T) {
	t.Parallel()
	b, _ := onRedis(t, alone)
	b.SetUser("~* &* +@all")
	user := b.user()
	for _, overlap := range []string{OverlapAllow, OverlapSkip, OverlapFollow} {
		for command := range strings.FieldsSeq("evalsha time zmscore hmget zadd type lpush pexpire hset exists") {
			t.Run(overlap+" without "+command, func(t *testing.T) {
				b.seed(t)
				s := aSchedule("s")
				s.Overlap = overlap
				put := b.put(t, s, b.time(-second))
				was := b.state(t)
				b.do(t, "ACL", "SETUSER", "u", "+@all", "-"+command)
				fired, err := b.fireOne(t, user.Store, Firing{Scheduled: put, Upcoming: b.time(60 * second), Occurrences: []FiredOccurrence{ran(b.time(-second))}})
				if fired.Done || !Refused(cmp.Or(err, fired.Refused)) {
					t.Errorf("fired: %+v, %v, want a refusal", fired, err)
				}
				b.expect(t, was)
				if now := b.scheduled(t, "s"); !now.Next.Equal(put.Next) || now.Ran != 0 || len(now.Past) > 0 || !now.Due.Equal(put.Due) && !now.Due.Equal(b.time(10*second)) {
					t.Errorf("then it is %+v", now)
				}
			})
		}
	}
}

// TestStrayWithoutPermission pops an entry that belongs to another topic's queue, which the user may not write to. The job goes into the
// pool, and the server moves it later.
func TestStrayWithoutPermission(t *testing.T) {
	t.Parallel()
	b, _ := onRedis(t, alone)
	b.do(t, "ACL", "SETUSER", "default", "-lpush")
	b.do(t, "HSET", "delayer:job_bucket:o", "topic", "u", "body", "b")
	b.do(t, "RPUSH", "delayer:ready_queue:t", "o")
	if _, _, err := b.pop(t.Context(), []string{"t"}); !errors.Is(err, ErrEmpty) {
		t.Errorf("error %v, want ErrEmpty", err)
	}
	b.expect(t, redistest.State{Pool: []string{"o"}, Buckets: map[string]string{"o": "u b"}})
}

// TestKeysWithoutPermission runs calls as a user who may use only some keys. Calls on other keys are refused and change nothing for any
// user.
func TestKeysWithoutPermission(t *testing.T) {
	t.Parallel()
	b, _ := onRedis(t, alone)
	b.SetUser("~delayer:job_pool ~delayer:job_bucket:mine* ~delayer:ready_queue:[tu] &* +@all")
	user := b.user()
	ctx := t.Context()
	seed := [][]command{ready("theirs", "t"), ready("mine", "t"), ready("mine too", "u"), ready("mine three", "forbidden")}
	pop := func(topics ...string) func() error {
		return func() error { _, _, err := user.pop(ctx, topics); return err }
	}
	push := func(topic string, delay time.Duration, ids ...string) *Call[[]error] {
		var jobs []Delayed
		for _, id := range ids {
			jobs = append(jobs, aJob(id, topic, delay))
		}
		return user.Push(jobs)
	}
	for name, call := range map[string]func() error{
		"pop of a bucket that is denied":                   pop("t"),
		"pop of a queue that is denied":                    pop("forbidden"),
		"pop of two topics, one is denied":                 pop("forbidden", "u"),
		"push into a bucket that is denied":                func() error { return errorOf(push("t", time.Hour, "theirs").Do(ctx)) },
		"push into a queue that is denied":                 func() error { return errorOf(push("forbidden", 0, "mine new").Do(ctx)) },
		"several pushes, one into a bucket that is denied": func() error { return errOf(push("t", time.Hour, "mine new", "theirs").Do(ctx)) },
	} {
		t.Run(name, func(t *testing.T) {
			b.seed(t, seed...)
			was := b.state(t)
			if err := call(); !Refused(err) {
				t.Errorf("error %v, want one that Refused knows", err)
			}
			b.expect(t, was)
		})
	}
	b.seed(t, seed...)
	if job, _, err := user.pop(ctx, []string{"u"}); err != nil || job.ID != "mine too" {
		t.Errorf("pop of another topic: %+v, %v", job, err)
	}
}

// An error behind stale entries is returned with them.
func TestPopWithoutPermissionBehindStaleEntries(t *testing.T) {
	t.Parallel()
	b, _ := onRedis(t, alone)
	b.seed(t, ghosts("t", 1), ready("a", "t"))
	b.do(t, "ACL", "SETUSER", "default", "-del")
	_, stale, err := b.pop(t.Context(), []string{"t"})
	if !Refused(err) || !slices.Equal(stale, ghostIDs(1)) {
		t.Errorf("stale %q, error %v", stale, err)
	}
	b.expect(t, redistest.State{Ready: map[string][]string{"t": {"a"}}, Buckets: map[string]string{"a": "t body of a"}})
}

// A user who may not announce a job, or not check whether it is the next one due, can still store it.
func TestWithoutPermissionToAnnounce(t *testing.T) {
	t.Parallel()
	b, _ := onRedis(t, alone)
	user := b.user()
	for _, rights := range []string{"&* +@all -publish", "&* +@all -zcount", "resetchannels +@all"} {
		b.seed(t, ready("r", "t"), waits("w", "t", 60*second), content("s", "t"), entry("s", "stray"))
		b.SetUser("~* " + rights)
		for name, call := range map[string]func() error{
			"push": func() error {
				return user.push(t.Context(), Job{ID: "a", Topic: "u", Body: "b"}, Due{After: time.Second}, kept, Replace)
			},
			"push at once":      func() error { return user.push(t.Context(), Job{ID: "b", Topic: "u", Body: "b"}, Due{}, kept, Replace) },
			"reschedule":        func() error { return user.Reschedule(t.Context(), "r", time.Second) },
			"reschedule to now": func() error { return user.Reschedule(t.Context(), "w", 0) },
			"pop of a stray": func() error {
				if _, _, err := user.pop(t.Context(), []string{"stray"}); !errors.Is(err, ErrEmpty) {
					return err
				}
				return nil
			},
		} {
			if err := call(); err != nil {
				t.Errorf("%s with %s: %v", name, rights, err)
			}
		}
		got := b.state(t)
		for _, list := range [][]string{got.Pool, got.Ready["t"], got.Ready["u"]} {
			slices.Sort(list)
		}
		if !slices.Equal(got.Pool, []string{"a", "r"}) || !slices.Equal(got.Ready["t"], []string{"s", "w"}) || !slices.Equal(got.Ready["u"], []string{"b"}) {
			t.Errorf("with %s: %+v", rights, got)
		}
	}
}

// withoutEach makes a call as the user u, without each command in turn that the call sends. Redis refuses the call, and not a byte has changed,
// or the call does what it does with the command, best effort. Without a required command it is refused. seed returns the call.
func (b *backend) withoutEach(t *testing.T, name, required string, seed func(t *testing.T) (call func() error)) {
	t.Helper()
	seeded := func(t *testing.T) func() error {
		b.do(t, "ACL", "SETUSER", "u", "+@all")
		return seed(t)
	}
	call := seeded(t)
	b.do(t, "CONFIG", "RESETSTAT")
	whole := call()
	commands := strings.Fields("evalsha " + required)
	for command := range b.With(t).AllCalls() {
		if !slices.Contains(append(commands, "auth", "eval", "info", "script"), command) && !strings.Contains(command, "|") {
			commands = append(commands, command)
		}
	}
	for _, command := range commands {
		t.Run(name+" without "+command, func(t *testing.T) {
			call := seeded(t)
			was := b.dump(t)
			b.do(t, "ACL", "SETUSER", "u", "-"+command)
			err := call()
			is := b.dump(t)
			switch isRequired := slices.Contains(strings.Fields("evalsha "+required), command); {
			case Refused(err) && !maps.Equal(is, was):
				t.Errorf("%v, but it has changed\n%q to\n%q", err, was, is)
			case !Refused(err) && isRequired:
				t.Errorf("error %v, want one that Refused knows", err)
			case !Refused(err) && fmt.Sprint(err) != fmt.Sprint(whole):
				t.Errorf("error %v, with the command it was %v", err, whole)
			}
		})
	}
}

// dump returns the content of all keys.
func (b *backend) dump(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, key := range b.With(t).Strings("KEYS", "*") {
		all[key] = string(b.do(t, "DUMP", key).([]byte))
	}
	return all
}
