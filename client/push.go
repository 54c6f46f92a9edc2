package client

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/mix-basic/delayer/internal/duration"
	"github.com/mix-basic/delayer/internal/pushrule"
	"github.com/mix-basic/delayer/internal/store"
)

// Message is a job as it is pushed and as a consumer gets it. Topic and Body must not be empty, because consumers
// of the original drop such jobs (but see EmptyBody). All three may hold any bytes: an ID up to 4 KiB, a topic up
// to 1 KiB, a body up to the 512 MiB of a Redis string. A body is sent in one piece and delays other
// calls, so store bodies above a megabyte elsewhere.
type Message struct {
	// ID identifies the job among all topics. If it is empty, Push makes one.
	ID string `json:"id"`
	// Topic names the ready queue of the job.
	Topic string `json:"topic"`
	// Body is the content of the job.
	Body string `json:"body"`
	// Headers are metadata, such as a tenant or a trace. A name is 1 to 128 letters, digits, dots, underscores and
	// hyphens; a value is UTF-8 without a zero byte; and all of them are at most 4 KiB as a JSON object. Consumers of
	// the original do not see them. A push that replaces a job replaces its headers, too, unless a client of the
	// original makes it. A group has those of its last push, a job pushed with Follow its own, and a scheduled job
	// those of its schedule.
	Headers map[string]string `json:"headers,omitempty"`
}

// PushOption is an option of a push: JobOptions, a Group, or what ID, IfExists or Replicas return. Of two that say
// the same thing, the later counts.
type PushOption interface{ apply(*pushOptions) }

type pushOption func(*pushOptions)

func (f pushOption) apply(o *pushOptions) { f(o) }

type pushOptions struct {
	store.Terms
	wrong      error  // the first wrong option
	id         string // of ID
	mayBeEmpty bool   // the body
	ifExists   Policy
	group      *Group
}

// refuse keeps the first error of an option.
func (o *pushOptions) refuse(wrong error) { o.wrong = cmp.Or(o.wrong, wrong) }

// JobOptions say how a job is delivered and how long it is kept. They are a [PushOption]. In each field, 0 means the default.
type JobOptions struct {
	// MaxAttempts is how often the job is delivered to consumers that reserve. If it is not acknowledged by then, it
	// becomes a dead letter. The default is the consumer's own limit. Pop and BPop ignore attempts.
	MaxAttempts int
	// Lease is how long the job is reserved for a consumer that names no lease: from 1 ms to 24 h, 30 s by
	// default. Less than 100 ms counts as 100 ms, so that the lease outlasts a few round trips.
	Lease time.Duration
	// ExpireAfter is how long the job is kept after it became ready, if nobody consumes it: from 1 ms to 100 years,
	// counted in milliseconds. The default is 7 days, as in the original's PHP client. Shortly before
	// its end a server makes the job a dead letter, if it is the first of its queue; other jobs are deleted.
	ExpireAfter time.Duration
	// EmptyBody allows an empty body. Consumers of the original drop such a job, so use it only for topics without
	// them.
	EmptyBody bool
}

func (j JobOptions) apply(o *pushOptions) {
	if j.MaxAttempts != 0 {
		if o.MaxAttempts = j.MaxAttempts; o.MaxAttempts < 1 || o.MaxAttempts > math.MaxInt32 {
			o.refuse(invalid("max attempts", fmt.Sprintf("%d is not from 1 to %d", o.MaxAttempts, math.MaxInt32)))
		}
	}
	if j.Lease != 0 {
		o.TTR = j.Lease
		o.refuse(checkLength("lease", j.Lease, store.MaxLease))
	}
	if j.ExpireAfter != 0 {
		o.Lifetime = j.ExpireAfter
		o.refuse(checkLength("expire after", j.ExpireAfter, store.MaxDelay))
	}
	o.mayBeEmpty = o.mayBeEmpty || j.EmptyBody
}

// ID sets the ID of the job, for a push of a [Topic], whose value has none.
func ID(id string) PushOption {
	return pushOption(func(o *pushOptions) { o.id = id; o.refuse(checkID(id)) })
}

// Replicas makes the push wait until n replicas of the Redis master have the job, 1 to 100, for up to the timeout,
// 1 ms to 10 s. If fewer have it by then, the push returns a [ReplicasError] that says how many do; the job is
// stored all the same. It reduces what a failover can lose, but guarantees nothing: a replica without the job may
// be promoted, and the master may die before it replies. With Redis's min-replicas-to-write, a master that has
// noticed that it has no replicas accepts no jobs.
//
// Such pushes share batches with each other and not with other pushes. ctx ends them as it ends any push. The
// Redis user needs +wait.
func Replicas(n int, timeout time.Duration) PushOption {
	return pushOption(func(o *pushOptions) {
		if o.Replicas = (store.Replicas{N: n, Within: timeout}); n < 1 || n > store.MaxReplicas {
			o.refuse(invalid("replicas", fmt.Sprintf("%d is not from 1 to %d", n, store.MaxReplicas)))
		}
		o.refuse(checkLength("replicas timeout", timeout, store.MaxReplicasTimeout))
	})
}

// Outcome is what a push did.
type Outcome string

// The outcomes of pushes.
const (
	OutcomeCreated  Outcome = "created"  // there was no job with that ID
	OutcomeReplaced Outcome = "replaced" // there was one; it got the new content and due time
	OutcomeKept     Outcome = "kept"     // there was one; it got the new content and kept its due time
	OutcomeAdded    Outcome = "added"    // there was a group (see Group), which got one more body
	OutcomeRefused  Outcome = "refused"  // ErrExists or ErrOtherTopic; nothing has changed
	OutcomeFollowed Outcome = "followed" // there was a reserved one; the new job takes its place when it is done
)

var outcomes = map[store.Outcome]Outcome{store.DidCreate: OutcomeCreated, store.DidReplace: OutcomeReplaced, store.DidKeep: OutcomeKept, store.DidRefuse: OutcomeRefused, store.DidFollow: OutcomeFollowed, store.DidAdd: OutcomeAdded}

// Policy says what a push does if its ID was pushed before: see [IfExists]. The zero Policy changes nothing about the push.
type Policy struct {
	name    string // empty if none was chosen
	policy  store.Policy
	longest time.Duration // of Debounce
	wrong   error
}

// IfExists says what the push does if its ID was pushed before. Debounce, Once, OnceAs and Follow need an ID.
//
// Waiting, ready and reserved jobs exist; a dead letter does not count, and stays what it is. A ready or reserved job
// counts as due now. A push that replaces a job sets its body and options anew; the job starts over with all its
// attempts, and a consumer that has reserved it loses the lease. If the job has another topic, the push changes
// nothing and returns ErrOtherTopic; only with Replace given does it move the ID to the new topic.
func IfExists(p Policy) PushOption {
	return pushOption(func(o *pushOptions) {
		if p.name != "" {
			o.ifExists, o.Policy = p, p.policy
		}
		o.refuse(p.wrong)
	})
}

// Replace replaces the job, with the new due time, so a ready job waits again. It is the default, except that given
// explicitly it also replaces a job of another topic.
func Replace() Policy { return Policy{name: "Replace", policy: store.Replace} }

// Refuse changes nothing: Push returns ErrExists, whatever the job's topic.
func Refuse() Policy { return Policy{name: "Refuse", policy: store.Refuse} }

// KeepEarlier replaces the job, but keeps the earlier due time.
func KeepEarlier() Policy { return Policy{name: "KeepEarlier", policy: store.KeepEarlier} }

// KeepLater replaces the job, but keeps the later due time.
func KeepLater() Policy { return Policy{name: "KeepLater", policy: store.KeepLater} }

// Follow is Replace, but leaves a reserved job and its lease alone. The new job waits behind it, and takes its place
// when it is acknowledged, popped or becomes a dead letter, but not before its own due time. Of several such pushes
// the newest is kept. So no trigger is lost, and none is handled while the previous one is. If the consumer of the
// reserved job dies, that job is retried first.
func Follow() Policy { return Policy{name: "Follow", policy: store.Follow} }

// Debounce is Replace, except that the job falls due at the latest that long, up to 100 years, after the first of
// these pushes, however many follow. It turns a burst of triggers into one job, which comes when nothing was
// pushed for its delay, or after longest. The delay must not be longer than that. When the job was reserved or is
// gone, the next push starts a new burst.
func Debounce(longest time.Duration) Policy {
	return Policy{"Debounce", store.Debounce(longest), longest, checkLength("debounce", longest, store.MaxDelay)}
}

// Once accepts one push of the ID within the window, up to 100 years, whatever happens to its job: waiting, reserved,
// done, dead or popped. Another push with Once changes nothing and returns ErrExists, and so does the first one if
// the ID has a job already. So a push can be repeated after a lost reply, and a trigger can be throttled. The window
// begins with the accepted push, by Redis's clock. Remove frees the ID. Pushes without Once ignore the window.
func Once(window time.Duration) Policy {
	return Policy{name: "Once", policy: store.Once(window), wrong: checkLength("once", window, store.MaxDelay)}
}

// OnceAs is Once that also compares content: a refused push with other content than the accepted one returns
// ErrReused, which is also ErrExists. The content is any string, such as message and options together; Redis keeps a
// hash of it. It is not compared with pushes of the ID by other policies.
func OnceAs(window time.Duration, content string) Policy {
	p, sum := Once(window), sha256.Sum256([]byte(content))
	p.policy = store.OnceAs(window, base64.RawStdEncoding.EncodeToString(sum[:16]))
	return p
}

// Push stores a job that falls due after the delay, and returns its ID and what the push did. The delay counts from
// now, by Redis's clock, and is rounded up to milliseconds. With delay 0 the job is ready at once, without a server.
//
// The delay has a unit: 30*time.Second. A bare 30 is 30 ns in Go, so a delay above 0 and below 1 ms is ErrInvalid. A
// negative one, such as time.Until of a time in the past, means at once. PushAt takes any time.
//
// Push is one atomic step: after an error from Redis (ErrExists, ErrOtherTopic, maxmemory reached) nothing has changed, except
// that with a [ReplicasError] (see [Replicas]) the job is stored. A ctx with a deadline
// ends the push at the deadline, even if Redis is silent. One that can only be cancelled ends it while it waits
// for its turn; a push that was sent waits for its reply, within the connection's timeouts. If the connection
// breaks or the deadline passes before the reply, it is unknown whether the job was stored. Pushing it again under
// the same ID is safe unless it may have been consumed by then; the Result has the ID, also one that Push made.
//
// While a node of a Redis Cluster is unreachable, a push without an ID gets an ID of a healthy partition, unless the
// job may be stored already. A push with an ID belongs to its partition, and fails after 3 s if that is unreachable.
func (c *Client) Push(ctx context.Context, m Message, delay time.Duration, opts ...PushOption) (Result, error) {
	return c.push(ctx, m, store.Due{After: max(delay, 0)}, checkDelay(delay), opts)
}

// PushAt is Push for a job that falls due at a time, by Redis's clock, up to 100 years from now. A time in the past
// means at once.
func (c *Client) PushAt(ctx context.Context, m Message, due time.Time, opts ...PushOption) (Result, error) {
	return c.push(ctx, m, store.Due{At: due}, checkDue(due), opts)
}

func (c *Client) push(ctx context.Context, m Message, due store.Due, wrong error, opts []PushOption) (r Result, err error) {
	if c != nil && c.hooks.push != nil {
		var done func([]Result, error)
		hooked := []Item{{Message: m}}
		ctx, done = c.pushing(ctx, "push", hooked)
		m = hooked[0].Message
		defer func() { done([]Result{{r.ID, r.Outcome, err}}, err) }()
	}
	o := defaultPush
	if len(opts) > 0 {
		o = o.with(opts)
	}
	job, err := newJob(m, due, &o)
	if err = cmp.Or(wrong, err); err == nil {
		err = c.begin(ctx)
	}
	if err != nil {
		return Result{ID: m.ID}, failed("push", m.ID, err)
	}
	defer c.running.Done()
	job.Told = new(store.Told) // which may be set when nobody waits any more
	pushes := c.calls.pushes
	switch {
	case o.Replicas.N > 0:
		pushes = c.calls.replicated
	case o.group != nil:
		pushes = c.calls.grouped
	}
	if len(c.fleet.Stores) > 1 && m.ID == "" && o.id == "" && o.group == nil {
		err = c.pushNew(ctx, pushes, &job)
	} else {
		err = pushes.Do(ctx, c.fleet.Of(job.ID), job)
	}
	known := cmp.Or(m.ID, o.id) // to the caller
	switch {
	case err == nil && o.group == nil:
		return Result{ID: job.ID, Outcome: outcomes[job.Told.Did]}, nil
	case isStored(err) || isRefused(err):
		r = Result{ID: job.StoredID(), Outcome: outcomes[job.Told.Did]}
		known = r.ID
	case o.group == nil:
		r.ID = job.ID
	default:
		r.ID = known
	}
	return r, failed("push", known, err)
}

// newJob returns the message as the store takes it, always with an ID.
func newJob(m Message, due store.Due, o *pushOptions) (store.Delayed, error) {
	if o.id != "" {
		if m.ID != "" && m.ID != o.id {
			return store.Delayed{}, invalid("id", fmt.Sprintf("the message has %s, and the option ID %s", store.Quote(m.ID), store.Quote(o.id)))
		}
		m.ID = o.id
	}
	if err := checkPush(m, due, o); err != nil {
		return store.Delayed{}, err
	}
	terms := o.Terms
	if len(m.Headers) > 0 {
		var err error
		if terms.Headers, err = headersText(m.Headers); err != nil {
			return store.Delayed{}, err
		}
	}
	if o.group != nil {
		if err := o.group.check(m); err != nil {
			return store.Delayed{}, err
		}
		return o.group.job(m, terms), nil
	}
	if m.ID == "" {
		m.ID = store.NewID()
	}
	return store.Delayed{Job: store.Job(m), Due: due, Terms: terms}, nil
}

// headersText returns headers as the store keeps them.
func headersText(headers map[string]string) (string, error) {
	text, wrong := store.HeadersText(headers)
	if wrong != "" {
		return "", invalid("headers", wrong)
	}
	return text, nil
}

var defaultPush = pushOptions{Terms: store.Terms{Lifetime: store.DefaultLifetime}}

func (o pushOptions) with(opts []PushOption) pushOptions {
	if len(opts) == 0 {
		return o
	}
	with := o // which is allocated, as options get its address
	for _, opt := range opts {
		if opt == nil {
			with.refuse(invalid("option", "it is nil"))
		} else {
			opt.apply(&with)
		}
	}
	return with
}

func checkDue(due time.Time) error {
	if due.IsZero() || time.Until(due) > store.MaxDelay {
		return invalid("due", fmt.Sprintf("%v is not a time within %s from now", due, duration.Bound(store.MaxDelay)))
	}
	return nil
}

func checkPush(m Message, due store.Due, o *pushOptions) error {
	switch {
	case m.Topic == "":
		return invalid("topic", "it is empty")
	case m.Body == "" && !o.mayBeEmpty:
		return invalid("body", "it is empty")
	case o.wrong != nil:
		return o.wrong
	case len(m.ID) > store.MaxID || len(m.Topic) > store.MaxTopic || len(m.Body) > store.MaxBody:
		return cmp.Or(checkSize("id", m.ID, store.MaxID), checkSize("topic", m.Topic, store.MaxTopic), checkSize("body", m.Body, store.MaxBody))
	case o.ifExists.longest > 0 && pushrule.Debounce(o.ifExists.longest, due.After) != "":
		return invalid("debounce", pushrule.Debounce(o.ifExists.longest, due.After))
	case o.ifExists.name != "" || o.group != nil:
		return o.checkTogether(m, due)
	}
	return nil
}

// checkTogether returns which parts of a push of that message exclude each other.
func (o *pushOptions) checkTogether(m Message, due store.Due) error {
	chosen := o.ifExists.name
	given := map[string]bool{
		"id": m.ID != "", "delay": due.After != 0, "due": !due.At.IsZero(), "group": o.group != nil,
		"group_quiet": o.group != nil && o.group.Quiet != 0, "group_longest": o.group != nil && o.group.Longest != 0,
	}
	switch chosen {
	case "":
	case "Debounce", "Once":
		given[strings.ToLower(chosen)] = true
	default:
		given["if_exists"], given["follow"] = true, chosen == "Follow"
	}
	if part, why := pushrule.Check(func(part string) bool { return given[part] }, o.nameOf); part != "" {
		return invalid(o.nameOf(part), why)
	}
	return nil
}

// nameOf returns the Go name of a part of the push.
func (o *pushOptions) nameOf(part string) string {
	switch part {
	case "if_exists":
		return o.ifExists.name
	case "id", "delay", "due":
		return part
	}
	part = strings.TrimPrefix(part, "group_")
	return strings.ToUpper(part[:1]) + part[1:]
}
