package daemon

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/mix-basic/delayer/config"
	"github.com/mix-basic/delayer/internal/cron"
	"github.com/mix-basic/delayer/internal/fleet"
	"github.com/mix-basic/delayer/internal/store"
	"github.com/mix-basic/delayer/logger"
)

// fileOwner is the owner of the schedules of the configuration file.
const fileOwner = "file"

// schedulesEvery is the interval between checks of the file's schedules, schedulesAgain the interval after a
// failure.
const schedulesEvery, schedulesAgain = time.Minute, 2 * time.Second

// fileSchedules keeps the schedules of the configuration file stored in Redis.
type fileSchedules struct {
	jobs  *fleet.Fleet
	list  []store.Schedule
	names []string // names in the list
	id    string   // ID under which this daemon lists its names for other daemons
	log   *logger.Logger
	kept  string // schedules kept by other daemons, as last logged
}

// keepSchedules stores the schedules of the file, and deletes schedules that are no longer in the file of any running
// daemon. It checks them once a minute and after an outage: schedules lost by Redis are stored again, unless somebody
// removed them by hand. It retries while Redis is down or refuses, unless the file has no schedules and the user may not
// even read whether some are left.
func (s *service) keepSchedules(ctx context.Context) {
	k := &fileSchedules{jobs: s.jobs, id: rand.Text(), log: s.log}
	k.use(s.config.Schedules)
	defer k.stop()
	inForce, logged := false, ""
	for {
		err := k.keep(ctx, inForce)
		inForce = inForce || err == nil
		again := time.After(cmp.Or(s.schedulesEvery, schedulesEvery))
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			logged = ""
		case len(k.list) == 0 && store.Refused(err) && !k.maySee(ctx):
			again = nil
		default:
			again = time.After(cmp.Or(s.schedulesEvery, schedulesAgain))
			if err.Error() != logged && !store.Temporary(err) {
				logged = err.Error()
				s.log.Error(fmt.Sprintf("Schedules of the configuration file can't be put in force, it is tried again: %v", err))
			}
		}
		select {
		case <-s.recovered.again:
		case list := <-s.newSchedules:
			k.use(list)
			inForce = false
		case <-again:
		case <-ctx.Done():
			return
		}
	}
}

// use adopts the schedules of the file.
func (k *fileSchedules) use(list []config.Schedule) {
	k.list, k.names = nil, nil
	for _, s := range list {
		k.list, k.names = append(k.list, scheduleOfFile(s)), append(k.names, s.Name)
	}
}

// keep stores new and changed schedules or, once they are in force, missing ones. Then it deletes others.
func (k *fileSchedules) keep(ctx context.Context, inForce bool) error {
	put := (*store.Store).PutSchedule
	if inForce {
		put = (*store.Store).PutMissingSchedule
	}
	err := k.say(ctx)
	var stored, deleted []string
	for _, s := range k.list {
		if err != nil {
			break
		}
		did := false
		if did, err = k.put(ctx, s, put); err != nil {
			err = fmt.Errorf("%s: %w", store.Quote(s.Name), err)
		} else if did {
			stored = append(stored, s.Name)
		}
	}
	if err == nil {
		deleted, err = k.deleteOthers(ctx)
	}
	if inForce {
		k.tell("Schedules of the configuration file were not in Redis any more, though nobody has removed them, and are stored again", stored)
		k.tell("Schedules that no daemon's configuration file has any more are deleted", deleted)
	} else {
		k.tell("Schedules of the configuration file have changed", append(stored, deleted...))
	}
	return err
}

// put stores a schedule.
func (k *fileSchedules) put(ctx context.Context, s store.Schedule, do func(*store.Store, context.Context, store.Schedule, time.Time) (time.Time, bool, error)) (did bool, err error) {
	spec, err := cron.Parse(s.Spec)
	zone, wrong := cron.Zone(s.Zone)
	if err = cmp.Or(err, wrong); err != nil {
		return false, err
	}
	id := store.ScheduleID(s.Name)
	jobs := k.jobs.Of(id)
	now, err := jobs.Time(ctx)
	if err != nil {
		return false, err
	}
	now = now.Add(time.Millisecond - 1).Truncate(time.Millisecond) // rounded up, like delays
	_, did, err = do(jobs, ctx, s, spec.Next(now.In(zone)))
	return did, err
}

// say lists this daemon's schedules in Redis, so that no other daemon deletes them.
func (k *fileSchedules) say(ctx context.Context) error {
	if len(k.names) == 0 {
		return nil
	}
	_, err := k.jobs.Stores[0].ListSchedules(ctx, k.id, k.names)
	return err
}

// stop undoes say.
func (k *fileSchedules) stop() {
	if len(k.names) > 0 {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		k.jobs.Stores[0].UnlistSchedules(ctx, k.id)
	}
}

// deleteOthers deletes schedules that came from a file and are no longer in any running daemon's file.
func (k *fileSchedules) deleteOthers(ctx context.Context) (deleted []string, err error) {
	var left []string
	for _, s := range k.jobs.Stores {
		names, err := s.SchedulesFrom(ctx, fileOwner)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			if !slices.Contains(k.names, name) && !slices.Contains(left, name) {
				left = append(left, name)
			}
		}
	}
	var kept []string
	if len(left) > 0 {
		others, err := k.jobs.Stores[0].ListSchedules(ctx, k.id, k.names)
		if err != nil {
			return nil, err
		}
		for _, name := range left {
			if others[name] {
				kept = append(kept, name)
				continue
			}
			switch err := k.jobs.Of(store.ScheduleID(name)).RemoveSchedule(ctx, name, fileOwner); {
			case err == nil:
				deleted = append(deleted, name)
			case !errors.Is(err, store.ErrNotFound):
				return deleted, err
			}
		}
	}
	if now := strings.Join(kept, ", "); now != k.kept {
		k.kept = now
		k.tell("Schedules are kept that this configuration file does not have, as another daemon that runs has them", kept)
	}
	return deleted, nil
}

func (k *fileSchedules) tell(what string, names []string) {
	if len(names) > 0 {
		slices.Sort(names)
		k.log.Info(what + ": " + strings.Join(names, ", "))
	}
}

// maySee reports whether the Redis user may read schedules.
func (k *fileSchedules) maySee(ctx context.Context) bool {
	_, err := k.jobs.Stores[0].SchedulesFrom(ctx, fileOwner)
	return !store.Refused(err)
}

func scheduleOfFile(s config.Schedule) store.Schedule {
	return store.Schedule{
		Name: s.Name, Spec: s.Cron, Zone: s.Zone, Topic: s.Topic, Body: s.Body, Missed: s.Missed, Overlap: s.Overlap, Jitter: s.Jitter,
		Terms: store.Terms{Lifetime: s.ExpireAfter, MaxAttempts: s.MaxAttempts, TTR: s.Lease, Headers: s.Headers}, Source: fileOwner,
	}
}

// recovery signals when passes succeed again after failures.
type recovery struct {
	failing atomic.Bool
	again   chan struct{} // buffered, one signal
}

func newRecovery() *recovery {
	return &recovery{again: make(chan struct{}, 1)}
}

func (r *recovery) passed(err error) {
	if err != nil {
		r.failing.Store(true)
	} else if r.failing.CompareAndSwap(true, false) {
		select {
		case r.again <- struct{}{}:
		default:
		}
	}
}
