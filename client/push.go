package client

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/mix-basic/delayer/internal/duration"
	"github.com/mix-basic/delayer/internal/pushrule"
	"github.com/mix-basic/delayer/internal/store"
)

// Message is a job as it is pushed and as a consumer gets it. Topic and Body must not be empty, because consumers
// of the original drop such jobs (but see EmptyBody). All three may hold any bytes: an ID up to 4 KiB, a topic up
// to 1 KiB, a body up to the 512 MiB of a Redis string. A body is sent in one piece, and others wait meanwhile, so
// store bodies above a megabyte elsewhere.
type Message struct {
	// ID identifies the job among all topics. If it is empty, Push makes one.
	ID string `json:"id"`
	// Topic names the ready queue of the job.
	Topic string `json:"topic"`
	// Body is the content of the job.
	Body string `json:"body"`
	// Headers are a few texts in addition to the body, such as a tenant or a trace. A name is 1 to 128 letters,
	// digits, dots, underscores and hyphens; a value is UTF-8 without a zero byte; and all of them are at most 4 KiB
	// as a JSON object. Consumers of the original do not see them. A push that replaces a job replaces its headers,
	// too; one by a client of the original leaves them as they are.
	Headers map[string]string `json:"headers,omitempty"`
}

// DefaultReadyMaxLifetime is how long a job is kept after it became ready, unless ReadyMaxLifetime says otherwise:
// 7 days, as in the original's PHP client.
const DefaultReadyMaxLifetime = store.DefaultLifetime

// PushOption configures one push.
type PushOption func(*pushOptions)

type pushOptions struct {
	store.Terms
	wrong           error  // the first wrong option
	mayBeEmpty      bool   // the body
	chosen          string // the name of Replace, Refuse, KeepEarlier, KeepLater or Follow, if it was given
	debounced, once bool
	longest         time.Duration // of debounced pushes
	report          *Outcome      // is set by a push that is done, and by ErrExists
	group           *group
}

// refuse keeps the first error of an option.
func (o *pushOptions) refuse(wrong error) { o.wrong = cmp.Or(o.wrong, wrong) }

// ReadyMaxLifetime sets how long the job is kept after it became ready, if nobody consumes it: from 1 ms to
// MaxDelay, counted in milliseconds.
func ReadyMaxLifetime(d time.Duration) PushOption {
	return func(o *pushOptions) { o.Lifetime = d; o.refuse(checkLength("ready max lifetime", d, MaxDelay)) }
}

// MaxAttempts sets how often the job is delivered to consumers that reserve, at least 1. If it is not acknowledged
// by then, it becomes a dead letter. The default is the consumer's own limit. Pop and BPop ignore attempts.
func MaxAttempts(n int) PushOption {
	return func(o *pushOptions) {
		if o.MaxAttempts = n; n < 1 || n > math.MaxInt32 {
			o.refuse(invalid("max attempts", fmt.Sprintf("%d is not from 1 to %d", n, math.MaxInt32)))
		}
	}
}

// TTR ("time to run") sets how long the job is reserved for a consumer that names no lease: from 1 ms to 24 h, 30
// s by default. Less than 100 ms counts as 100 ms, so that the lease outlasts a few round trips.
func TTR(d time.Duration) PushOption {
	return func(o *pushOptions) { o.TTR = d; o.refuse(checkLength("ttr", d, MaxLease)) }
}

// EmptyBody allows an empty body. Consumers of the original drop such a job, so use it only for topics without
// them.
func EmptyBody() PushOption {
	return func(o *pushOptions) { o.mayBeEmpty = true }
}

// Replicas makes the push wait until n replicas of the Redis master have the job, 1 to 100, for up to the timeout,
// 1 ms to 10 s. If fewer have it by then, the push returns a [ReplicasError] that says how many do; the job is
// stored all the same. It reduces what a failover can lose, but guarantees nothing: a replica without the job may
// be promoted, and the master may die before it answers. With Redis's min-replicas-to-write, a master that has
// noticed that it has no replicas accepts no jobs.
//
// Such pushes share batches with each other and not with other pushes. ctx ends them as it ends any push. The
// Redis user needs +wait.
func Replicas(n int, timeout time.Duration) PushOption {
	return func(o *pushOptions) {
		if o.Replicas = (store.Replicas{N: n, Within: timeout}); n < 1 || n > MaxReplicas {
			o.refuse(invalid("replicas", fmt.Sprintf("%d is not from 1 to %d", n, MaxReplicas)))
		}
		o.refuse(checkLength("replicas timeout", timeout, MaxReplicasTimeout))
	}
}

// Upper bounds of Replicas.
const (
	MaxReplicas        = 100
	MaxReplicasTimeout = 10 * time.Second
)

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

// Options that say what a push does if its ID was pushed before. A push has at most one of Replace, Refuse, KeepEarlier, KeepLater,
// Follow, Debounce, Once and OnceAs; a push to a Group may only have Once or OnceAs. Follow, Debounce, Once and OnceAs need an ID.
//
// Waiting, ready and reserved jobs exist; a dead letter does not count, and stays what it is. A ready or reserved job counts as due now. A
// push that replaces a job sets its body, lifetime and other options anew; the job starts over with all its attempts, and a consumer that
// has reserved it loses the lease. If the job has another topic, the push changes nothing and returns ErrOtherTopic; only with Replace given
// does it move the ID to the new topic.
var (
	// Replace replaces the job, with the new due time, so a ready job waits again. It is the default, except that given explicitly it
	// also replaces a job of another topic.
	Replace = ifExists("Replace", store.Replace)
	// Refuse changes nothing: Push returns ErrExists, whatever the job's topic.
	Refuse = ifExists("Refuse", store.Refuse)
	// KeepEarlier replaces the job, but keeps the earlier due time.
	KeepEarlier = ifExists("KeepEarlier", store.KeepEarlier)
	// KeepLater replaces the job, but keeps the later due time.
	KeepLater = ifExists("KeepLater", store.KeepLater)
	// Follow is Replace, but leaves a reserved job and its lease alone. The new job takes its place when that one is acknowledged,
	// popped or becomes a dead letter, but not before its own due time; of several such pushes the newest counts. So no trigger is lost,
	// and none is handled while the previous one is. If the consumer of the reserved job dies, that job is retried first.
	Follow = ifExists("Follow", store.Follow)
)

func ifExists(name string, p store.Policy) PushOption {
	return func(o *pushOptions) { o.Policy, o.chosen = p, name }
}

// Debounce is Replace, except that the job falls due at the latest that long, up to MaxDelay, after the first of
// these pushes, however many follow. It turns a burst of triggers into one job, which comes when nothing was
// pushed for its delay, or after longest. The delay must not be longer than that. When the job was reserved or is
// gone, the next push starts a new burst. See Replace for what it can be combined with.
func Debounce(longest time.Duration) PushOption {
	return func(o *pushOptions) {
		o.Policy, o.debounced, o.longest = store.Debounce(longest), true, longest
		o.refuse(checkLength("debounce", longest, MaxDelay))
	}
}

// Once makes a push of the ID count once within the window, up to MaxDelay, whatever happens to the job: waiting,
// reserved, done, dead or popped. Another push of it changes nothing and returns the ID and ErrExists, as does a
// push of an existing ID. So a push can be repeated after a lost reply, and a trigger can be throttled. The window
// begins with the push that counts, by Redis's clock. Remove frees the ID. Other pushes ignore the window and have
// none. See Replace for what it can be combined with.
func Once(window time.Duration) PushOption {
	return func(o *pushOptions) {
		o.Policy, o.once = store.Once(window), true
		o.refuse(checkLength("once", window, MaxDelay))
	}
}

// OnceAs is Once for pushes that should have the same content: one that does not count, and whose content differs
// from the one that does, returns ErrReused, which is also ErrExists. The content is any text, such as message and
// options as one string; Redis keeps a hash of it. It is not compared with pushes of the ID by other options.
func OnceAs(window time.Duration, content string) PushOption {
	sum := sha256.Sum256([]byte(content))
	return func(o *pushOptions) {
		Once(window)(o)
		o.Policy = store.OnceAs(window, base64.RawStdEncoding.EncodeToString(sum[:16]))
	}
}

// Push stores a job that falls due after the delay, and returns its ID. The delay counts from now, by Redis's
// clock, and is rounded up to milliseconds. With delay 0 the job is ready at once, without a server.
//
// The delay has a unit: 30*time.Second. A bare 30 is 30 ns in Go, so a delay above 0 and below 1 ms is ErrInvalid. A
// negative one, such as time.Until of a time in the past, means at once. PushAt takes any time.
//
// Push is one atomic step: after an error from Redis (ErrExists, ErrOtherTopic, maxmemory reached) nothing has changed, except
// that with a [ReplicasError] (see [Replicas]) the job is stored and its ID is returned. A ctx with a deadline
// ends the push at the deadline, even if Redis is silent. One that can only be cancelled ends it while it waits
// for its turn; a push that was sent waits for its reply, within the connection's timeouts. If the connection
// breaks or the deadline passes before the reply, it is unknown whether the job was stored. Pushing it again under
// the same ID is safe unless it may have been consumed by then.
//
// While a node of a Redis Cluster is away, a push without an ID gets an ID of a healthy partition, unless the job
// may be stored already. A push with an ID belongs to its partition, and fails after 3 s if that is away.
func (c *Client) Push(ctx context.Context, m Message, delay time.Duration, opts ...PushOption) (id string, err error) {
	return c.push(ctx, m, store.Due{After: max(delay, 0)}, checkDelay(delay), opts, nil)
}

// PushAt is Push for a job that falls due at a time, by Redis's clock, up to MaxDelay from now. A time in the past
// means at once.
func (c *Client) PushAt(ctx context.Context, m Message, due time.Time, opts ...PushOption) (id string, err error) {
	return c.push(ctx, m, store.Due{At: due}, checkDue(due), opts, nil)
}

// PushOne is Push or PushAt for one job, and also returns what the push did: OutcomeRefused with ErrExists, and empty
// after any other error. The options of the call follow the job's own. The error is the Result's too.
func (c *Client) PushOne(ctx context.Context, job Item, opts ...PushOption) (r Result, err error) {
	due, wrong := dueOf(job)
	r.ID, err = c.push(ctx, job.Message, due, wrong, slices.Concat(job.Options, opts), &r.Outcome)
	r.Err = err
	return r, err
}

func (c *Client) push(ctx context.Context, m Message, due store.Due, wrong error, opts []PushOption, report *Outcome) (id string, err error) {
	if c != nil && c.hooks.push != nil {
		report = cmp.Or(report, new(Outcome))
		var done func([]Result, error)
		hooked := []Item{{Message: m}}
		ctx, done = c.pushing(ctx, "push", hooked)
		m = hooked[0].Message
		defer func() { done([]Result{{ID: id, Err: err, Outcome: *report}}, err) }()
	}
	o := defaultPush
	if len(opts) > 0 || report != nil {
		o = o.with(opts)
		o.report = report
	}
	job, err := newJob(m, due, &o)
	if err = cmp.Or(wrong, err); err == nil {
		err = c.begin(ctx)
	}
	if err != nil {
		return "", failed("push", m.ID, err)
	}
	defer c.running.Done()
	if len(opts) > 0 || report != nil || m.ID == "" && len(c.fleet.Stores) > 1 {
		return c.pushWith(ctx, m, job, &o)
	}
	if err := c.calls.pushes.Do(ctx, c.fleet.Of(job.ID), job); err != nil {
		return "", failed("push", m.ID, err)
	}
	return job.ID, nil
}

// pushWith pushes a job with options, or whose ID may belong to any of several
// partitions.
func (c *Client) pushWith(ctx context.Context, m Message, job store.Delayed, o *pushOptions) (_ string, err error) {
	if job.Told == nil && o.report != nil {
		job.Told = new(store.Told) // which may be set when nobody waits any more
	}
	pushes := c.calls.pushes
	switch {
	case job.Replicas.N > 0:
		pushes = c.calls.replicated
	case o.group != nil:
		pushes = c.calls.grouped
	}
	if m.ID == "" && o.group == nil {
		err = c.pushNew(ctx, pushes, &job)
	} else {
		err = pushes.Do(ctx, c.fleet.Of(job.ID), job)
	}
	if !isStored(err) && !isRefused(err) {
		return "", failed("push", m.ID, err)
	}
	var did store.Outcome
	if job.Told != nil {
		did = job.Told.Did
	}
	return o.pushed(job.StoredID(), did, err)
}

// pushed returns what Push returns, given what the push did.
func (o *pushOptions) pushed(id string, did store.Outcome, err error) (string, error) {
	if o.report != nil {
		*o.report = outcomes[did]
	}
	if !isStored(err) && !o.once {
		return "", failed("push", id, err)
	}
	return id, failed("push", id, err)
}

// newJob returns the message as the store takes it, always with an ID.
func newJob(m Message, due store.Due, o *pushOptions) (store.Delayed, error) {
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

var defaultPush = pushOptions{Terms: store.Terms{Lifetime: DefaultReadyMaxLifetime}}

func (o pushOptions) with(opts []PushOption) pushOptions {
	if len(opts) == 0 {
		return o
	}
	with := o // which is allocated, as options get its address
	for _, opt := range opts {
		if opt == nil {
			with.refuse(invalid("option", "it is nil"))
		} else {
			opt(&with)
		}
	}
	return with
}

func checkDue(due time.Time) error {
	if due.IsZero() || time.Until(due) > MaxDelay {
		return invalid("due", fmt.Sprintf("%v is not a time within %s from now", due, duration.Bound(MaxDelay)))
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
	case o.debounced && pushrule.Debounce(o.longest, due.After) != "":
		return invalid("debounce", pushrule.Debounce(o.longest, due.After))
	case o.chosen != "" || o.debounced || o.once || o.group != nil:
		return o.checkTogether(m, due)
	}
	return nil
}

// checkTogether returns which parts of a push of that message exclude each other.
func (o *pushOptions) checkTogether(m Message, due store.Due) error {
	given := map[string]bool{
		"id": m.ID != "", "delay": due.After != 0, "due": !due.At.IsZero(), "if_exists": o.chosen != "", "follow": o.chosen == "Follow",
		"debounce": o.debounced, "once": o.once, "group": o.group != nil,
		"group_quiet": o.group != nil && o.group.Quiet != 0, "group_longest": o.group != nil && o.group.Longest != 0,
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
		return o.chosen
	case "id", "delay", "due":
		return part
	}
	part = strings.TrimPrefix(part, "group_")
	return strings.ToUpper(part[:1]) + part[1:]
}
