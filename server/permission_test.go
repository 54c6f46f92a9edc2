package server

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/internal/store"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// user creates an ACL user with only these permissions, and a Server that logs in as this user.
func (w *world) user(rights string) {
	w.TB.Helper()
	w.SetUser(rights)
	w.log = new(recorder)
	w.server = serverOn(w.poolWith(3*time.Second, redis.DialUsername("u"), redis.DialPassword("p")), 1, w.options())
	w.mover().stuck.every = time.Hour
}

const (
	// daemonRights has all permissions that a server needs, from the documentation.
	daemonRights = "~delayer:* &delayer:* +evalsha +eval +time +exists +zcount +zrange +hget +hmget +zmscore +zadd +zrem +llen +lpos +lrange +lpush +lmove +rpop +rename +hincrby +zrangebyscore +type +del +hset +hdel +hlen +hrandfield +hscan +hstrlen +get +pexpire +pttl +persist +zscore +zpopmin +publish +subscribe +ping +select"
	ordinary     = "~delayer:* +@all -@dangerous"
)

// TestPermissions takes single commands, keys and channels away from the user. No job is lost or in two places, and one topic's problem
// does not stop the other topic's jobs. store/TestWithoutPermission covers every command.
func TestPermissions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	content := buckets{"a": "t body", "b": "u body", "c": "t body", "d": "u body", "r": "t body"}
	rest := queues{"t": {"r"}}
	all := redistest.State{Ready: queues{"t": {"r", "a", "c"}, "u": {"b", "d"}}, Buckets: content}
	onlyT := redistest.State{Pool: []string{"b", "d"}, Ready: queues{"t": {"r", "a", "c"}}, Buckets: content}
	untouched := redistest.State{Pool: []string{"a", "b", "c", "d", "orphan"}, Ready: rest, Buckets: content}
	for _, c := range []struct {
		rights string
		want   redistest.State
		says   string // in the error log, or in the pass's error if the pass fails
		fails  bool
	}{
		{daemonRights, all, "", false},
		{ordinary, all, "Cannot publish to delayer:wake:*, waiting consumers may get jobs late: ", false},
		{daemonRights + " -publish", all, "+publish", false},
		{daemonRights + " -eval", all, "", false}, // Redis knows the scripts by now
		{daemonRights + " -evalsha", untouched, "'evalsha'", true},
		{daemonRights + " -lpush", redistest.State{Pool: []string{"a", "b", "c", "d"}, Ready: rest, Buckets: content}, "Jobs of a topic can't be moved, Topic: u: ", false},
		{daemonRights + " resetkeys ~delayer:job_* ~delayer:ready_queue:t", onlyT, "(ready queue delayer:ready_queue:u); they are tried again every 1h", false},
		{daemonRights + " resetkeys ~delayer:job_pool ~delayer:ready_queue:* ~delayer:job_bucket:[aco]*", onlyT, " (job bucket delayer:job_bucket:d); they are tried again every 1h", false},
		{daemonRights + " resetkeys ~delayer:job_pool ~delayer:ready_queue:*", untouched, "buckets can't be read", false},
	} {
		t.Run(c.rights, func(t *testing.T) {
			w.TB = t
			w.Do("FLUSHALL")
			w.Do("HSET", prefix+"job_bucket:r", "topic", "t", "body", "body")
			w.Do("LPUSH", prefix+"ready_queue:t", "r")
			for n, id := range []string{"a", "b", "c", "d"} {
				w.push(id, []string{"t", "u"}[n%2], n)
			}
			w.Do("ZADD", prefix+"job_pool", 9, "orphan")
			w.Do("ZADD", prefix+"waiters:t", 1, "first", 2, "second")
			w.user(c.rights)
			for range 2 { // the second pass finds nothing new, or fails in the same way
				_, err := passOf(w.server)
				if c.fails != (err != nil) || c.fails && (!store.Refused(err) || !strings.Contains(err.Error(), c.says)) {
					t.Errorf("error %v, want a refusal with %q: %v", err, c.says, c.fails)
				}
			}
			_, errors := w.log.lines()
			errors = slices.DeleteFunc(errors, func(line string) bool { return strings.HasPrefix(line, "Job bucket has expired") })
			if !c.fails && (c.says == "" && len(errors) > 0 || mention(errors, c.says) != 1 && c.says != "") {
				t.Errorf("error log %q, want one line with %q", errors, c.says)
			}
			w.Expect(c.want)
		})
	}
}

// When the user gets the missing permission back, the remaining jobs are moved, and the log reports that.
func TestPermissionGiven(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.push("a", "t", 1)
	w.push("b", "u", 2)
	w.user(daemonRights + " resetkeys ~delayer:job_pool ~delayer:waiters:* ~delayer:ready_queue:t ~delayer:job_bucket:a")
	w.expectPass(1, 0)
	w.hours()
	w.Do("ACL", "SETUSER", "u", "~delayer:job_bucket:*")
	w.expectPass(0, 0)
	w.hours()
	w.Do("ACL", "SETUSER", "u", "~delayer:ready_queue:*")
	w.expectPass(1, 0)
	w.log.expectErrorsWith(t, "buckets can't be read", "Topic: u: ")
	if info, _ := w.log.lines(); mention(info, "Topic: u: over after") != 1 {
		t.Errorf("logged %q", info)
	}
}

// TestCheckChannels takes single permissions for channels away: Check names them, and that is not ErrRefused.
func TestCheckChannels(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const subscribe, publish = "subscribe to delayer:first_due", "publish to delayer:wake:*"
	for _, c := range []struct{ rights, what, words string }{
		{daemonRights, "", ""},
		{ordinary + " allchannels", "", ""},
		{ordinary + " &delayer:*", "", ""},
		{daemonRights + " -ping", "", ""},
		{ordinary, subscribe + " or " + publish, "needs &delayer:* ("},
		{daemonRights + " resetchannels &delayer:first_due", publish, "needs &delayer:* ("},
		{daemonRights + " resetchannels &delayer:wake:*", subscribe, "needs &delayer:* ("},
		{daemonRights + " -subscribe", subscribe, "needs &delayer:* +subscribe ("},
		{daemonRights + " -publish", publish, "needs &delayer:* +zpopmin +publish ("},
		{daemonRights + " -publish -subscribe resetchannels", subscribe + " or " + publish, "needs &delayer:* +subscribe +zpopmin +publish ("},
	} {
		t.Run(c.rights, func(t *testing.T) {
			w.TB = t
			w.user(c.rights)
			err := w.server.Check(t.Context())
			if c.what == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			want := "redis does not let this user " + c.what + ", so that jobs may come late, by up to 10ms; its ACL " + c.words
			if !errors.Is(err, ErrNoChannel) || errors.Is(err, ErrRefused) || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("error %v\nwant  %s", err, want)
			}
		})
	}
}

// The log gives advice on the ACL only if a permission is missing. While a slot moves it gives only the reason, and the
// server starts with that user.
func TestAdviceIsForPermissions(t *testing.T) {
	t.Parallel()
	s := serverOn(newWorld(t).pool(), 1, Options{})
	for _, c := range []struct {
		why     redis.Error
		advised bool
	}{
		{"NOPERM this user has no permissions to access one of the channels used as arguments", true},
		{"ERR The user executing the script can't run this command or subcommand script: f, on @user_script:5.", true},
		{"ERR ACL failure in script: User u has no permissions to run the 'publish' command", true},
		{"ERR Script attempted to access a non local key in a cluster node", false},
		{"ERR Attempted to access a non local key in a cluster node", false},
		{"WRONGTYPE Operation against a key holding the wrong kind of value", false},
	} {
		if got := strings.Contains(s.advise(c.why, "+publish").Error(), "the ACL needs"); got != c.advised {
			t.Errorf("%q: advised %v, want %v", c.why, got, c.advised)
		}
		if got := s.noChannel(nil, c.why) != nil; got != c.advised {
			t.Errorf("%q: at the start %v, want %v", c.why, got, c.advised)
		}
	}
}

// An ordinary user of Redis 7 has no channels. Run works by its interval, and logs once that the permission is missing
// and once that it is there.
func TestRunWithoutChannels(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.user(ordinary)
	w.server.test.askAgain = 20 * time.Millisecond
	w.run()
	w.log.awaitError(t, "Cannot subscribe to delayer:first_due, jobs may be up to 10ms late: NOPERM")
	for n, id := range []string{"a", "b", "c"} {
		w.Do("ZADD", "delayer:waiters:t", 1, "waiter")
		w.push(id, "t", 1)
		w.log.awaitMoved(t, n+1)
	}
	w.log.awaitError(t, "Cannot publish to delayer:wake:*, waiting consumers may get jobs late: ")
	w.log.expectErrorsWith(t, "; the ACL needs &delayer:*", "; the ACL needs &delayer:*")
	w.Do("ACL", "SETUSER", "u", "&delayer:*")
	w.log.awaitInfo(t, "Cannot subscribe to delayer:first_due, jobs may be up to 10ms late: over after ")
	awaitListeners(t, w.Server, 1)
	waiter := redis.PubSubConn{Conn: w.Pool().Get()}
	defer waiter.Close()
	check(t, waiter.Subscribe("delayer:wake:waiter"))
	waiter.Receive()
	w.Do("ZADD", "delayer:waiters:t", 1, "waiter")
	w.push("d", "t", 1)
	w.log.awaitInfo(t, "Cannot publish to delayer:wake:*, waiting consumers may get jobs late: over after ")
	w.log.expectErrorsWith(t, "Cannot subscribe", "Cannot publish")
}

// Jobs whose buckets cannot be read are retried at their own time, not after the interval.
func TestNextTryOfUnreadableBuckets(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.user(daemonRights + " resetkeys ~delayer:job_pool ~delayer:ready_queue:*")
	w.push("a", "t", 1)
	if next := w.pass().Next; next.IsZero() || time.Until(next) > w.mover().stuck.every {
		t.Errorf("next at %v, in %v", next, time.Until(next))
	}
}
