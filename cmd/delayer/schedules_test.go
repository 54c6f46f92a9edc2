package main

import (
	"strings"
	"testing"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/config"
	"github.com/mix-basic/delayer/internal/redistest"
	"github.com/mix-basic/delayer/logger"
)

// What asking again can't mend ends: a schedule that can't be is told of once. Where the file has none, a user who may not
// read schedules is not worth a word.
func TestSchedulesThatAreGivenUp(t *testing.T) {
	t.Parallel()
	daily := config.Schedule{Name: "daily", Cron: "@daily", Zone: "UTC", Topic: "t", Body: "b", Missed: "once", Overlap: "allow", ReadyMaxLifetime: time.Hour}
	wrong := daily
	wrong.Name = "a\tb"
	db := redistest.Start(t)
	for name, test := range map[string]struct {
		rights string
		kept   []client.Schedule // by an earlier start
		file   []config.Schedule
		log    []string // once it has told one, the user may do all
	}{
		"invalid":                {"+@all", nil, []config.Schedule{daily, wrong}, []string{"invalid name: want no braces and no control characters"}},
		"refused, and none":      {"+time", nil, nil, nil},
		"refused":                {"+time", nil, []config.Schedule{daily}, []string{"it is tried again", "have changed: daily"}},
		"one is left, unremoved": {"+@all -zrem", schedulesOf([]config.Schedule{daily}), nil, []string{"it is tried again", "have changed: daily"}},
	} {
		t.Run(name, func(t *testing.T) {
			db.Do("FLUSHALL")
			owner := client.New(db.Pool())
			defer owner.Close()
			_, err := owner.SetSchedules(t.Context(), fileOwner, test.kept)
			check(t, err)
			db.Do("ACL", "SETUSER", "daemon", "reset", "on", ">secret", "~*", "&*", "+eval", "+evalsha", "+script|load")
			for right := range strings.FieldsSeq(test.rights) {
				db.Do("ACL", "SETUSER", "daemon", right)
			}
			told := make(console, 10)
			log, err := logger.Open(logger.Options{Console: told})
			check(t, err)
			s := &service{log: log, pool: client.PoolOptions{Addr: db.Addr, Username: "daemon", Password: "secret"},
				config: config.Config{Redis: config.Redis{Prefix: "delayer:", Partitions: 1}, Schedules: test.file}}
			go func() {
				s.setSchedules(t.Context())
				log.Close()
				close(told)
			}()
			for _, want := range test.log {
				line := <-told
				if !strings.Contains(line, want) {
					t.Errorf("told %q, want %q", line, want)
				}
				db.Do("ACL", "SETUSER", "daemon", "+@all")
			}
			if line, more := <-told; more {
				t.Errorf("then told %q", line)
			}
		})
	}
}

// console has the lines that a log tells.
type console chan string

func (c console) Write(line []byte) (int, error) {
	c <- string(line)
	return len(line), nil
}
