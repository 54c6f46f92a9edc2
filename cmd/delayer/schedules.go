package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/config"
	"github.com/mix-basic/delayer/internal/store"
)

// fileOwner is who keeps the schedules of the configuration file.
const fileOwner = "file"

// setSchedules puts the schedules of the file in force, and deletes those that are no more in it. While Redis is away, or refuses, it
// tries again; but where the file has none, and the user may not even see whether some are left, there are none to keep.
func (s *service) setSchedules(ctx context.Context) {
	r := s.config.Redis
	c := client.OpenPool(s.pool, client.WithPrefix(r.Prefix), client.WithPartitions(r.Partitions), client.WithPartitionsBefore(r.PartitionsBefore))
	defer c.Close()
	schedules, said := schedulesOf(s.config.Schedules), ""
	for {
		changed, err := c.SetSchedules(ctx, fileOwner, schedules)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil && len(changed) > 0:
			slices.Sort(changed)
			s.log.Info("Schedules of the configuration file have changed: " + strings.Join(changed, ", "))
			return
		case err == nil, len(schedules) == 0 && store.Refused(err) && !maySee(ctx, c):
			return
		case errors.Is(err, client.ErrInvalid):
			s.log.Error(fmt.Sprintf("Schedules of the configuration file can't be put in force: %v", err))
			return
		case err.Error() != said && !store.Temporary(err):
			said = err.Error()
			s.log.Error(fmt.Sprintf("Schedules of the configuration file can't be put in force, it is tried again: %v", err))
		}
		select {
		case <-time.After(schedulesAgain):
		case <-ctx.Done():
			return
		}
	}
}

// maySee reports whether Redis lets the user read schedules.
func maySee(ctx context.Context, c *client.Client) bool {
	_, err := c.Schedules(ctx)
	return !store.Refused(err)
}

// schedulesAgain is after how long it is tried again to put schedules in force.
const schedulesAgain = 2 * time.Second

func schedulesOf(list []config.Schedule) []client.Schedule {
	var schedules []client.Schedule
	for _, s := range list {
		options := []client.PushOption{client.ReadyMaxLifetime(s.ReadyMaxLifetime)}
		if s.MaxAttempts > 0 {
			options = append(options, client.MaxAttempts(s.MaxAttempts))
		}
		if s.TTR > 0 {
			options = append(options, client.TTR(s.TTR))
		}
		schedules = append(schedules, client.Schedule{
			Name: s.Name, Cron: s.Cron, Zone: s.Zone, Topic: s.Topic, Body: s.Body,
			Missed: client.Missed(s.Missed), Overlap: client.Overlap(s.Overlap), Jitter: s.Jitter, Options: options,
		})
	}
	return schedules
}
