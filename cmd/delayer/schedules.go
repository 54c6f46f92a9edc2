package main

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

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/config"
	"github.com/mix-basic/delayer/internal/cron"
	"github.com/mix-basic/delayer/internal/fleet"
	"github.com/mix-basic/delayer/internal/store"
	"github.com/mix-basic/delayer/logger"
	"github.com/mix-basic/delayer/server"
)

// fileOwner is who keeps the schedules of the configuration file.
const fileOwner = "file"

// schedulesEvery is how often it is looked whether the schedules of the file are there, schedulesAgain after how long once more if
// that failed.
const schedulesEvery, schedulesAgain = time.Minute, 2 * time.Second

// fileSchedules keeps the schedules of the configuration file in force.
type fileSchedules struct {
	jobs  *fleet.Fleet
	list  []store.Schedule
	names []string // of the list
	id    string   // of what this daemon says of its file
	log   *logger.Logger
	kept  string // what the log has been told of those that others keep
}

// keepSchedules puts the schedules of the file in force, and deletes those that no file of a running daemon has any more. Once a minute, and after
// an outage, it looks again: what Redis has forgotten is stored anew, but for what somebody has removed by hand. While Redis is away,
// or refuses, it tries again; but where the file has none, and the user may not even see whether some are left, there are none to keep.
func (s *service) keepSchedules(ctx context.Context) {
	r := s.config.Redis
	pool := client.Connect(s.pool)
	defer pool.Close()
	k := &fileSchedules{
		jobs: layoutOf(r).Open(pool, r.Prefix), id: rand.Text(), log: s.log,
	}
	for _, one := range s.config.Schedules {
		k.list, k.names = append(k.list, scheduleOfFile(one)), append(k.names, one.Name)
		if err := store.CheckScheduleName(one.Name); err != nil {
			s.log.Error(fmt.Sprintf("Schedules of the configuration file can't be put in force: %s: invalid name: %v", store.Quote(one.Name), err))
			return
		}
	}
	defer k.stop()
	inForce, said := false, ""
	for {
		var err error
		if !inForce {
			err = k.start(ctx)
			inForce = err == nil
		} else {
			err = k.lookAgain(ctx)
		}
		wait := schedulesEvery
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			said = ""
		case len(k.list) == 0 && store.Refused(err) && !k.maySee(ctx):
			return
		default:
			wait = schedulesAgain
			if err.Error() != said && !store.Temporary(err) {
				said = err.Error()
				s.log.Error(fmt.Sprintf("Schedules of the configuration file can't be put in force, it is tried again: %v", err))
			}
		}
		select {
		case <-s.recovered.again:
		case <-time.After(cmp.Or(s.schedulesEvery, wait)):
		case <-ctx.Done():
			return
		}
	}
}

// start stores what is new or has changed.
func (k *fileSchedules) start(ctx context.Context) error {
	if err := k.say(ctx); err != nil {
		return err
	}
	var changed []string
	for _, s := range k.list {
		_, did, err := k.put(ctx, s, (*store.Store).PutSchedule)
		if err != nil {
			return fmt.Errorf("%s: %w", store.Quote(s.Name), err)
		}
		if did {
			changed = append(changed, s.Name)
		}
	}
	deleted, err := k.deleteOthers(ctx)
	k.tell("Schedules of the configuration file have changed", append(changed, deleted...))
	return err
}

// lookAgain stores what Redis has forgotten, and deletes what no daemon's file has any more.
func (k *fileSchedules) lookAgain(ctx context.Context) error {
	if err := k.say(ctx); err != nil {
		return err
	}
	if err := k.restore(ctx); err != nil {
		return err
	}
	deleted, err := k.deleteOthers(ctx)
	k.tell("Schedules that no daemon's configuration file has any more are deleted", deleted)
	return err
}

func (k *fileSchedules) restore(ctx context.Context) error {
	at := map[*store.Store][]string{}
	for _, name := range k.names {
		of := k.jobs.Of(store.ScheduleID(name))
		at[of] = append(at[of], name)
	}
	var restored []string
	defer func() {
		k.tell("Schedules of the configuration file were not in Redis any more, though nobody has removed them, and are stored again", restored)
	}()
	missing := map[*store.Store]bool{}
	for of, names := range at {
		all, err := of.HasSchedules(ctx, names)
		if err != nil {
			return err
		}
		missing[of] = !all
	}
	for _, s := range k.list {
		if !missing[k.jobs.Of(store.ScheduleID(s.Name))] {
			continue
		}
		_, stored, err := k.put(ctx, s, (*store.Store).PutMissingSchedule)
		if err != nil {
			return fmt.Errorf("%s: %w", store.Quote(s.Name), err)
		}
		if stored {
			restored = append(restored, s.Name)
		}
	}
	return nil
}

// put stores a schedule where it belongs.
func (k *fileSchedules) put(ctx context.Context, s store.Schedule, do func(*store.Store, context.Context, store.Schedule, time.Time) (time.Time, bool, error)) (time.Time, bool, error) {
	spec, err := cron.Parse(s.Spec)
	zone, wrong := cron.Zone(s.Zone)
	if err = cmp.Or(err, wrong); err != nil {
		return time.Time{}, false, err
	}
	id := store.ScheduleID(s.Name)
	if _, err := k.jobs.MigrateJobs(ctx, []string{id}, true); err != nil {
		return time.Time{}, false, err
	}
	of := k.jobs.Of(id)
	now, err := of.Time(ctx)
	if err != nil {
		return time.Time{}, false, err
	}
	now = now.Add(time.Millisecond - 1).Truncate(time.Millisecond) // as delays count
	return do(of, ctx, s, spec.Next(now.In(zone)))
}

// say says which schedules this daemon's file has, so that no other daemon deletes them.
func (k *fileSchedules) say(ctx context.Context) error {
	if len(k.names) == 0 {
		return nil
	}
	_, err := k.jobs.Stores[0].ListSchedules(ctx, k.id, k.names)
	return err
}

// stop takes that back.
func (k *fileSchedules) stop() {
	if len(k.names) > 0 {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		k.jobs.Stores[0].UnlistSchedules(ctx, k.id)
	}
}

// deleteOthers deletes schedules that came from a file and are in no running daemon's file any more. An older server that runs may have all.
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
		servers, err := k.jobs.Stores[0].Servers(ctx)
		if err != nil {
			return nil, err
		}
		haveAll := slices.ContainsFunc(servers, func(s store.ServerState) bool { return !s.Lists && !s.Stale() })
		for _, name := range left {
			if haveAll || others[name] {
				kept = append(kept, name)
				continue
			}
			id := store.ScheduleID(name)
			if _, err := k.jobs.MigrateJobs(ctx, []string{id}, true); err != nil {
				return deleted, err
			}
			switch err := k.jobs.Of(id).RemoveSchedule(ctx, name, fileOwner); {
			case err == nil:
				deleted = append(deleted, name)
			case !errors.Is(err, store.ErrNotFound):
				return deleted, err
			}
		}
	}
	if now := strings.Join(kept, ", "); now != k.kept {
		k.kept = now
		k.tell("Schedules are kept that this configuration file does not have, as another daemon that runs has them, or is too old to tell", kept)
	}
	return deleted, nil
}

func (k *fileSchedules) tell(what string, names []string) {
	if len(names) > 0 {
		slices.Sort(names)
		k.log.Info(what + ": " + strings.Join(names, ", "))
	}
}

// maySee reports whether Redis lets the user read schedules.
func (k *fileSchedules) maySee(ctx context.Context) bool {
	_, err := k.jobs.Stores[0].SchedulesFrom(ctx, fileOwner)
	return !store.Refused(err)
}

func scheduleOfFile(s config.Schedule) store.Schedule {
	return store.Schedule{
		Name: s.Name, Spec: s.Cron, Zone: s.Zone, Topic: s.Topic, Body: s.Body, Missed: s.Missed, Overlap: s.Overlap, Jitter: s.Jitter,
		Terms: store.Terms{Lifetime: s.ReadyMaxLifetime, MaxAttempts: s.MaxAttempts, TTR: s.TTR}, Source: fileOwner,
	}
}

// recovery is an Observer that tells when passes work again after some that did not. All else goes to another Observer.
type recovery struct {
	server.Observer
	failing atomic.Bool
	again   chan struct{} // has room for one
}

func newRecovery() *recovery {
	return &recovery{Observer: noObserver{}, again: make(chan struct{}, 1)}
}

func (r *recovery) Passed(took time.Duration, err error) {
	if err != nil {
		r.failing.Store(true)
	} else if r.failing.CompareAndSwap(true, false) {
		select {
		case r.again <- struct{}{}:
		default:
		}
	}
	r.Observer.Passed(took, err)
}

type noObserver struct{}

func (noObserver) Moved(string, server.Moved)   {}
func (noObserver) Dropped(int)                  {}
func (noObserver) Passed(time.Duration, error)  {}
func (noObserver) Called(string, time.Duration) {}
func (noObserver) Fired(server.Fired)           {}
