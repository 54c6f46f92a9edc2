package history

import (
	"fmt"
	"time"

	"github.com/anishathalye/porcupine"
)

// kind is what a call does.
type kind string

const (
	push       kind = "push"
	remove     kind = "remove"
	reschedule kind = "reschedule"
	reserve    kind = "reserve"
	ack        kind = "ack"
	retry      kind = "retry"
	release    kind = "release"
	extend     kind = "extend"
)

// call is what was asked of a job.
type call struct {
	kind
	id    string
	after time.Duration // delay or lease
	token int64         // of the Delivery that is settled
	began time.Time
}

// result is what the caller was told, and when.
type result struct {
	answer
	token    int64 // of a reserve
	attempt  int   // of a reserve
	returned time.Time
}

type answer string

const (
	done    answer = "done"
	refused answer = "refused" // no such job, or the lease is lost: nothing has changed
	unknown answer = "unknown" // the reply was lost: the call was executed, or will be, or not
)

// job is the state of one job. A waiting and a ready job are the same state: nobody sees how soon a due job is
// moved. Times are the earliest that are possible, as a call is executed between its begin and its return.
type job struct {
	phase
	from     time.Time // pending: when it falls due; reserved: when the lease ends
	token    int64     // of its last lease
	attempts int       // that were counted
}

type phase string

const (
	gone     phase = "gone"
	pending  phase = "pending" // waiting or ready
	reserved phase = "reserved"
)

const (
	lease = 80 * time.Millisecond // of every reserve
	slack = 3 * time.Millisecond  // due times are whole milliseconds of Redis's clock
)

// model is the promise: a job is delivered when it is due and not before, to one consumer at a time, and only
// the consumer whose lease holds can settle it.
var model = porcupine.NondeterministicModel{
	Partition: byJob,
	Init:      func() []any { return []any{job{phase: gone}} },
	Step: func(state, input, output any) []any {
		j, c, r := state.(job), input.(call), output.(result)
		switch r.answer {
		case unknown:
			return append(c.executed(j), j)
		case refused:
			return c.refusedBy(j, r)
		}
		if c.kind == reserve {
			return r.delivered(j, c)
		}
		return c.executed(j)
	},
	DescribeOperation: func(input, output any) string {
		c, r := input.(call), output.(result)
		return fmt.Sprintf("%s %v token %d: %s, token %d, attempt %d", c.kind, c.after, c.token, r.answer, r.token, r.attempt)
	},
	DescribeState: func(state any) string { return fmt.Sprintf("%+v", state) },
}

// executed returns the states after the call, none if it would have been refused.
func (c call) executed(j job) []any {
	holds := j.phase == reserved && j.token == c.token
	later := c.began.Add(c.after - slack)
	switch {
	case c.kind == push:
		return []any{job{pending, later, j.token, 0}}
	case c.kind == remove && j.phase != gone:
		return []any{job{phase: gone, token: j.token}}
	case c.kind == reschedule && j.phase != gone:
		return []any{job{pending, later, j.token, j.attempts}}
	case c.kind == ack && holds:
		return []any{job{phase: gone, token: j.token}}
	case c.kind == retry && holds:
		return []any{job{pending, later, j.token, j.attempts}}
	case c.kind == release && holds:
		return []any{job{pending, c.began.Add(-slack), j.token, j.attempts - 1}}
	case c.kind == extend && holds:
		return []any{job{reserved, later, j.token, j.attempts}}
	}
	return nil
}

// refusedBy returns the states in which the call is refused. A lease that has ended may still hold for the
// others, until a server notices; once it was refused it does not.
func (c call) refusedBy(j job, r result) []any {
	switch {
	case c.kind == remove || c.kind == reschedule:
		if j.phase == gone {
			return []any{j}
		}
	case j.phase != reserved || j.token != c.token:
		return []any{j}
	case !r.returned.Before(j.from):
		return []any{job{pending, j.from, j.token, j.attempts}}
	}
	return nil
}

// delivered returns the states after a reserve. A reserve whose reply was lost had the job for a whole lease
// before, and was counted as an attempt.
func (r result) delivered(j job, c call) []any {
	lost := r.attempt - j.attempts - 1
	if j.phase == gone || lost < 0 || r.token <= j.token || r.returned.Before(j.from.Add(time.Duration(lost)*(lease-slack))) {
		return nil
	}
	return []any{job{reserved, c.began.Add(lease - slack), r.token, r.attempt}}
}

// byJob divides a history by job.
func byJob(history []porcupine.Operation) (parts [][]porcupine.Operation) {
	at := map[string]int{}
	for _, o := range history {
		id := o.Input.(call).id
		if _, known := at[id]; !known {
			at[id] = len(parts)
			parts = append(parts, nil)
		}
		parts[at[id]] = append(parts[at[id]], o)
	}
	return parts
}
