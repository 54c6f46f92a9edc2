package store

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

var restoreScript = newScript("restore")

// The kinds of Records.
const (
	RecordWaiting  = stateWaiting
	RecordReady    = stateReady
	RecordDead     = stateDead
	RecordSchedule = "schedule"
	RecordOnce     = oncePolicy // an ID whose pushes do not count
)

// Record is a job, a dead letter, a schedule or an ID of Once, with everything that Redis has of it.
type Record struct {
	Kind, ID string
	At       time.Time         // when it is due, was buried, or stops to count; zero for a ready job, and for a schedule at its end
	TTL      time.Duration     // until Redis drops it; -1: never
	Group    time.Duration     // how long its group is open, for a job to which pushes of its tag are added
	Fields   map[string]string // of its hash
}

// size is the number of bytes that it takes, about.
func (r *Record) size() (n int) {
	for name, value := range r.Fields {
		n += len(name) + len(value)
	}
	return n + len(r.ID)
}

// recordStep is the number of Records, and recordBytes their size, read or stored at a time.
const recordStep, recordBytes = 50, 1 << 20

// EachRecord calls do with all that the partition has, some at a time: schedules, what Once remembers, reserved jobs as waiting ones that
// are due when their leases end, waiting jobs in the order of their due times, ready ones in the order of delivery, and dead letters, the
// oldest first. What changes state meanwhile may be missing, or come twice.
func (s *Store) EachRecord(ctx context.Context, do func(Record) error) error {
	now, err := s.Time(ctx)
	if err != nil {
		return err
	}
	e := &exporter{s, ctx, now, do}
	if err := e.schedules(); err != nil {
		return err
	}
	if err := e.once(); err != nil {
		return err
	}
	for _, state := range []string{stateReserved, stateWaiting} {
		if err := e.browse(RecordWaiting, Browse{State: state}); err != nil {
			return err
		}
	}
	topics, err := s.EveryTopic(ctx)
	for _, topic := range topics {
		if err == nil {
			err = e.browse(RecordReady, Browse{Topic: topic, State: stateReady})
		}
		if err == nil {
			err = e.browse(RecordDead, Browse{Topic: topic, State: stateDead, Oldest: true})
		}
	}
	return err
}

// exporter is one EachRecord.
type exporter struct {
	*Store
	ctx context.Context
	now time.Time
	do  func(Record) error
}

// pass passes on the records of the IDs.
func (e *exporter) pass(kind string, ids, scores []string) error {
	for len(ids) > 0 {
		n := min(recordStep, len(ids))
		records, err := e.records(e.ctx, kind, ids[:n], scores[:n])
		for _, r := range records {
			if err == nil && (kind != RecordOnce || r.At.After(e.now)) {
				err = e.do(r)
			}
		}
		if err != nil {
			return err
		}
		ids, scores = ids[n:], scores[n:]
	}
	return nil
}

func (e *exporter) schedules() error {
	for last, more := "", true; more; more = last != "" {
		page, err := e.SchedulesBehind(last, recordStep).Do(e.ctx)
		if err != nil {
			return err
		}
		last = page.Last
		ids, scores := make([]string, len(page.List)), make([]string, len(page.List))
		for i, one := range page.List {
			ids[i] = one.ID
			if !one.Due.IsZero() {
				scores[i] = strconv.FormatFloat(float64(one.Due.UnixMilli())/1000, 'f', 3, 64)
			}
		}
		if err := e.pass(RecordSchedule, ids, scores); err != nil {
			return err
		}
	}
	return nil
}

func (e *exporter) once() error {
	for at := "0"; ; {
		reply, err := redis.Values(e.command(e.ctx, "ZSCAN", e.keys.Once(), at, "COUNT", recordStep))
		if err != nil {
			return err
		}
		var list []string
		if _, err = redis.Scan(reply, &at, &list); err != nil {
			return err
		}
		var ids, scores []string
		for pair := range slices.Chunk(list, 2) {
			ids, scores = append(ids, pair[0]), append(scores, pair[1])
		}
		if err := e.pass(RecordOnce, ids, scores); err != nil || at == "0" {
			return err
		}
	}
}

// browse passes on the jobs that b selects.
func (e *exporter) browse(kind string, b Browse) error {
	b.Jobs, b.Entries = recordStep, 4*recordStep
	for more := true; more; more = b.After != (Position{}) {
		page, err := e.Browse(e.ctx, b)
		if err != nil {
			return err
		}
		b.After = page.Last
		var ids, scores []string
		for i, job := range page.Jobs {
			if job.Topic != ScheduleTopic {
				ids, scores = append(ids, job.ID), append(scores, page.Positions[i].At)
			}
		}
		if err := e.pass(kind, ids, scores); err != nil {
			return err
		}
	}
	return nil
}

// records reads what there is of these IDs.
func (s *Store) records(ctx context.Context, kind string, ids, scores []string) (all []Record, err error) {
	names := map[string]func(string) string{RecordDead: s.keys.DeadLetter, RecordOnce: s.keys.OnceContent}
	nameOf := names[kind]
	if nameOf == nil {
		nameOf = s.keys.JobBucket
	}
	const each = 4
	var commands [][]any
	for _, id := range ids {
		group := s.keys.Group(tagOf(id))
		commands = append(commands, []any{"HGETALL", nameOf(id)}, []any{"PTTL", nameOf(id)}, []any{"HGET", group, "id"}, []any{"PTTL", group})
	}
	replies, err := s.together(ctx, commands)
	if err != nil {
		return nil, err
	}
	for i, id := range ids {
		r := Record{Kind: kind, ID: id}
		fields, err := redis.StringMap(replies[each*i], nil)
		if err != nil {
			return nil, err
		}
		if len(fields) == 0 && kind != RecordOnce {
			continue // it is gone
		}
		r.Fields = fields
		ttl, _ := replies[each*i+1].(int64)
		r.TTL = optional(ttl)
		if open, err := redis.String(replies[each*i+2], nil); err == nil && open == id && kind == RecordWaiting {
			left, _ := replies[each*i+3].(int64)
			r.Group = time.Duration(max(left, 1)) * time.Millisecond
		}
		if kind != RecordReady && scores[i] != "" {
			seconds, err := strconv.ParseFloat(scores[i], 64)
			if err != nil {
				return nil, err
			}
			if kind == RecordDead || kind == RecordOnce {
				seconds /= 1000
			}
			r.At = secondsTime(seconds).Add(time.Millisecond - 1).Truncate(time.Millisecond) // never early
		}
		all = append(all, r)
	}
	return all, nil
}

// tagOf returns the tag at the beginning of an ID, which that of a group's job has; else "".
func tagOf(id string) string {
	if end := strings.Index(id, "}"); end > 0 && id[0] == '{' {
		return id[:end+1]
	}
	return ""
}

// RecordChunks divides Records into parts that Restore takes, in order.
func RecordChunks(records []Record) (chunks [][]Record) {
	first, bytes := 0, 0
	for i := range records {
		if n := records[i].size(); i > first && (i-first == recordStep || bytes+n > recordBytes) {
			chunks, first, bytes = append(chunks, records[first:i]), i, n
		} else {
			bytes += n
		}
	}
	if first < len(records) {
		chunks = append(chunks, records[first:])
	}
	return chunks
}

// Restore stores Records and reports which of them did not exist; those that did stay as they are. With look it changes nothing.
func (s *Store) Restore(records []Record, look bool) *Call[[]bool] {
	mode := ""
	if look {
		mode = lookOnly
	}
	args := append(arguments(1+8*len(records), s.jobPool), mode)
	for _, r := range records {
		args = append(args, r.Kind, r.ID, unixMilli(r.At), ttlOf(r.TTL), r.Group.Milliseconds(), 2*len(r.Fields))
		for name, value := range r.Fields {
			args = append(args, name, value)
		}
	}
	return newCall(s, restoreScript, args, func(reply any) ([]bool, error) {
		list, err := redis.Ints(reply, nil)
		if err == nil && len(list) != len(records) {
			err = errReply("restore", reply)
		}
		stored := make([]bool, len(list))
		for i, n := range list {
			stored[i] = n == 1
		}
		return stored, err
	})
}

func ttlOf(d time.Duration) int64 {
	if d < 0 {
		return -1
	}
	return d.Milliseconds()
}

func unixMilli(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// Check returns why Redis could not use the record, or nil.
func (r *Record) Check() error {
	topic, hasTopic := r.Fields["topic"]
	switch {
	case !slices.Contains([]string{RecordWaiting, RecordReady, RecordDead, RecordSchedule, RecordOnce}, r.Kind):
		return errors.New("kind: want waiting, ready, dead, schedule, once, limit or pause")
	case r.ID == "" || len(r.ID) > MaxID+MaxTopic+64:
		return errors.New("id: it is empty or too long")
	case r.Kind != RecordOnce && (!hasTopic || topic == "" || len(topic) > MaxTopic):
		return errors.New("fields: topic is missing or too long")
	case (topic == ScheduleTopic) != (r.Kind == RecordSchedule):
		return errors.New("kind: schedule does not go with the field topic")
	case r.At.IsZero() && r.Kind != RecordReady && r.Kind != RecordSchedule:
		return errors.New("at: it is missing")
	case r.Kind == RecordSchedule && !scheduleIDForm.MatchString(r.ID):
		return errors.New("id: it is none of a schedule")
	case r.Group != 0 && (r.Kind != RecordWaiting || tagOf(r.ID) == ""):
		return errors.New("group: it is only for a waiting job whose ID begins with a tag")
	}
	return nil
}
