package delayqueue

import (
	"context"
	"errors"
	"math"
	"net/http"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/store"
)

func (a *api) get(_ http.ResponseWriter, r *http.Request, body []byte) envelope {
	id, complaint := readID(body)
	if complaint != "" {
		return failure(complaint)
	}
	ctx, cancel := context.WithTimeout(r.Context(), redisTimeout)
	defer cancel()
	found, err := a.client.Get(ctx, id)
	switch {
	case errors.Is(err, client.ErrNotFound):
		return success(done, nil)
	case err != nil:
		return failed("获取Job失败", "getting failed", err)
	}
	return tell(found.ID, found.Body, jobOf(found, time.Now()))
}

// jobOf is the answer of /get: its delay is the due time in Unix seconds.
func jobOf(found client.Job, now time.Time) job {
	if found.TTR == 0 {
		found.TTR = store.DefaultLease
	}
	return job{
		Topic: found.Topic,
		ID:    found.ID,
		Delay: dueOf(found, now).Unix(),
		TTR:   int64(math.Ceil(found.TTR.Seconds())),
		Body:  found.Body,
	}
}

// dueOf returns when the job is due or its lease ends. For a ready job it is derived from the job's lifetime,
// which starts when it becomes ready.
func dueOf(found client.Job, now time.Time) time.Time {
	if found.State != client.Ready {
		return found.Due
	}
	due := now.Add(found.TTL - client.DefaultReadyMaxLifetime)
	if found.TTL < 0 || due.After(now) {
		return now
	}
	return due
}
