package store

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"

	"github.com/gomodule/redigo/redis"
)

// TestErrorKinds covers errors that no test can provoke, and those of Redis 6.2, which no test runs on. TestAnswers covers the rest.
func TestErrorKinds(t *testing.T) {
	const refused, temporary, readOnly, full, wrongType = 1, 2, 4, 8, 16
	of := func(kind Kind) func(error) bool { return func(err error) bool { return KindOf(err) == kind } }
	in62 := func(reason string) error {
		return redis.Error("ERR Error running script (call to f_4c72eb1ca18cb479e450ac92f5fa68cc1b248864): @user_script:41: @user_script: 41: -" + reason)
	}
	for _, c := range []struct {
		err  error
		want int
	}{
		{io.EOF, temporary},
		{ErrNotFound, 0},
		{errors.New("dial tcp 127.0.0.1:6379: connect: connection refused"), temporary},
		{redis.Error("NOPERM this user has no permissions to run the 'evalsha' command"), refused},
		{redis.Error("ERR The user executing the script can't run this command or subcommand script: f, on @user_script:3."), refused},
		{redis.Error("ERR Error running script (call to f_4c72eb1ca18cb479e450ac92f5fa68cc1b248864): @user_script:41: @user_script: 41: The user executing the script can't run this command or subcommand"), refused},
		{redis.Error("@user_script: 41: The user executing the script can't access at least one of the keys mentioned in the command arguments"), refused},
		{redis.Error("@user_script: 41: The user executing the script can't publish to the channel mentioned in the command (RENAME to delayer:dead_letter:…)"), refused},
		{redis.Error("ERR ACL failure in script: User u has no permissions to run the 'zadd' command script: on @user_script:193."), refused},
		{redis.Error("ERR Error running script (call to f_4c72eb1ca18cb479e450ac92f5fa68cc1b248864): @user_script:41: @user_script: 41: Unknown Redis command called from Lua script"), refused},
		{redis.Error("ERR Unknown command called from script script: on @user_script:1."), refused},
		{redis.Error("ERR Error running script (call to f_4c72eb1ca18cb479e450ac92f5fa68cc1b248864): @user_script:41: @user_script: 41: Lua script attempted to access a non local key in a cluster node"), temporary},
		{redis.Error("ERR Unable to execute command 'rename' in script because undeclared keys were accessed during rehashing of the slot (RENAME to delayer:{3}:dead_letter:…)"), temporary},
		{redis.Error("ERR Unable to execute command 'rename' as it is said here"), 0},
		{redis.Error("ERR Script attempted to access a slot not served script: f, on @user_script:3."), temporary},
		{redis.Error("ERR Can not execute a write command 'lmove' while the cluster is down and readonly"), temporary},
		{redis.Error("ERR Command 'lmove' in script attempted to access keys that don't hash to the same slot"), refused},
		{redis.Error("ERR unknown command 'BLMOVE', with args beginning with: "), refused},
		{redis.Error("WRONGTYPE ready queue delayer:ready_queue:t is a string, not a list"), wrongType},
		{redis.Error("ERR Error running script (call to f_4c72eb1ca18cb479e450ac92f5fa68cc1b248864): @user_script:20: WRONGTYPE Operation against a key holding the wrong kind of value"), wrongType},
		{redis.Error("OOM command not allowed when used memory > 'maxmemory'. script: f, on @user_script:38."), full},
		{in62("OOM command not allowed when used memory > 'maxmemory'."), full},
		{redis.Error("LOADING Redis is loading the dataset in memory"), temporary | readOnly},
		{redis.Error("MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'."), temporary | readOnly},
		{redis.Error("READONLY You can't write against a read only replica. script: f, on @user_script:38."), temporary | readOnly},
		{in62("READONLY You can't write against a read only replica."), temporary | readOnly},
		{redis.Error("@user_script: 8: -READONLY You can't write against a read only replica."), temporary | readOnly},
		{redis.Error("BUSY Redis is busy running a script."), temporary},
		{redis.Error("NOREPLICAS Not enough good replicas to write."), temporary | readOnly},
		{redis.Error("BUSYKEY Target key name already exists."), 0},
		{redis.Error("ERR syntax error"), 0},
	} {
		for _, err := range []error{c.err, fmt.Errorf("push: %w", c.err)} {
			got := 0
			for kind, is := range map[int]func(error) bool{refused: Refused, temporary: Temporary, readOnly: takesNoWrites, full: of(OutOfMemory), wrongType: of(WrongType)} {
				if is(err) {
					got |= kind
				}
			}
			if got != c.want {
				t.Errorf("%v: kinds %04b, want %04b", err, got, c.want)
			}
		}
	}
	for _, is := range []func(error) bool{Refused, takesNoWrites, of(OutOfMemory), of(WrongType)} {
		if is(nil) {
			t.Error("nil is of some kind")
		}
	}
}

// The error about a reply that a script can't have returned says what it was, and none of its content.
func TestUnreadableReply(t *testing.T) {
	reply := []any{int64(-7), []byte("secret"), nil, []any{"secret", []any{}}, redis.Error("WRONGTYPE secret"), "OK"}
	const want = "redis answered pop with [-7, 6 bytes, nil, [6 bytes, []], an error, 2 bytes]"
	if got := errReply("pop", reply).Error(); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := errReply("pop", slices.Repeat([]any{int64(1)}, 1000)).Error(); got != "redis answered pop with [1, 1, 1, 1, 1, 1, 1, 1, … (1000)]" {
		t.Errorf("a long one: %s", got)
	}
}
