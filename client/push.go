package client

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/mix-basic/delayer/internal/pushrule"
	"github.com/mix-basic/delayer/internal/store"
)

// Message is a job: what is pushed, and what a consumer gets. Topic and Body
// must not be empty (the original's consumers take no such jobs; but see EmptyBody). All three may
// hold any bytes: an ID up to 4 KiB, a topic up to 1 KiB, a body up to the 512 MiB
// of a Redis string. A body goes to Redis and back in one piece, and others wait
// meanwhile, so beyond a megabyte it is better kept elsewhere.
type Message struct {
	// ID names the job among all topics. Left empty, Push makes one.
	ID string `json:"id"`
	// Topic names the ready queue the job goes to.
	Topic string `json:"topic"`
	// Body is the job's content.
	Body string `json:"body"`
}

// DefaultReadyMaxLifetime is how long a job is kept once it is ready, unless
// ReadyMaxLifetime says otherwise: 7 days, as in the original's PHP client.
const DefaultReadyMaxLifetime = store.DefaultLifetime

// PushOption changes one push.
type PushOption func(*pushOptions)

type pushOptions struct {
	store.Terms
	given                      bool // there are any
	limited, timed, replicated bool // MaxAttempts, TTR and Replicas were set
	wrong                      error
	mayBeEmpty                 bool   // the body
	chosen                     string // the name of Replace, Refuse, KeepEarlier, KeepLater or Follow, if it was given
	debounced, once            bool
	report                     *Outcome // is set by a push that is done, and by ErrExists
	group                      *group
}

// ReadyMaxLifetime sets how long the job is kept, for want of a consumer, once it is ready.
// It is a millisecond at least and MaxDelay at most; Redis counts it in milliseconds.
func ReadyMaxLifetime(d time.Duration) PushOption {
	return func(o *pushOptions) { o.Lifetime = d }
}

// MaxAttempts sets how often the job is delivered to those who reserve jobs, 1 at least. If
// it is not acknowledged then, it becomes a dead letter. Without it the consumer's own limit
// counts. Pop and BPop ignore attempts.
func MaxAttempts(n int) PushOption {
	return func(o *pushOptions) { o.MaxAttempts = n; o.limited = true }
}

// TTR ("time to run") sets for how long the job is reserved for a consumer who does
// not say so himself: a millisecond at least, and 24 h at most. Without it that is 30 s. Less than 100 ms
// counts as that, so that the lease lasts for some round trips.
func TTR(d time.Duration) PushOption {
	return func(o *pushOptions) { o.TTR = d; o.timed = true }
}

// EmptyBody lets the job's body be empty. Consumers of the original drop such a job: so it is for topics
// that have none of these.
func EmptyBody() PushOption {
	return func(o *pushOptions) { o.mayBeEmpty = true }
}

// Replicas has the push wait until n of the Redis master's replicas have the job, 1 to 100, for the timeout at
// most, 1 ms to 10 s. If fewer have it by then the push fails with a [ReplicasError], which says how many do; the job is
// stored all the same. It narrows what a failover can lose, and is no guarantee: a replica that does not have the job may be
// the one that is promoted, and the master may die before it tells. Redis's min-replicas-to-write adds that a master
// without replicas takes no jobs, once it has noticed.
//
// Such pushes share round trips with their like, not with others, and may wait for each other. The end of
// ctx is as for others. The Redis user needs +wait.
func Replicas(n int, timeout time.Duration) PushOption {
	return func(o *pushOptions) { o.Replicas = store.Replicas{N: n, Within: timeout}; o.replicated = true }
}

// The most that Replicas takes.
const (
	MaxReplicas        = 100
	MaxReplicasTimeout = 10 * time.Second
)

// Outcome is what a push did.
type Outcome string

// The outcomes of pushes.
const (
	Created  Outcome = "created"  // there was no job of that ID
	Replaced Outcome = "replaced" // there was one: it has the new content and due time
	Kept     Outcome = "kept"     // there was one: it has the new content, but keeps its due time
	Added    Outcome = "added"    // there was a group (see Group), which has got one more
	Refused  Outcome = "refused"  // ErrExists: nothing has changed
	Followed Outcome = "followed" // there was one, reserved: the new job takes its place when it is done
)

var outcomes = map[store.Outcome]Outcome{store.DidCreate: Created, store.DidReplace: Replaced, store.DidKeep: Kept, store.DidRefuse: Refused, store.DidFollow: Followed, store.DidAdd: Added}

// The options that say what a push does about earlier pushes of its ID. A push has one of Replace, Refuse, KeepEarlier, KeepLater, Follow,
// Debounce, Once and OnceAs at most, and one to a Group none of them but Once and OnceAs. All but Replace, Refuse, KeepEarlier and
// KeepLater need an ID; Push makes one for these, and finds no other.
//
// A job that is ready or reserved counts as due now. All but Refuse, Once and OnceAs, and Follow where it says so, replace topic, body,
// lifetime and what else the push says; the job begins anew, with all its attempts, and a consumer who has reserved it loses the lease.
var (
	// Replace lets the new due time count, so a ready job waits again. This is what Push does without an option.
	Replace = ifExists("Replace", store.Replace)
	// Refuse changes nothing: Push returns ErrExists.
	Refuse = ifExists("Refuse", store.Refuse)
	// KeepEarlier lets the earlier of both due times count.
	KeepEarlier = ifExists("KeepEarlier", store.KeepEarlier)
	// KeepLater lets the later of both due times count.
	KeepLater = ifExists("KeepLater", store.KeepLater)
	// Follow is Replace, but leaves a job alone that is reserved, with its lease. The new job takes its place when it is
	// acknowledged, has become a dead letter, or was popped, not before its own due time. The newest of several such pushes counts. So no trigger is lost,
	// and none is handled beside the one before. The new job is handled once the old one's consumer is done, or has died, and its attempts are used
	// up: until then that one is tried again.
	Follow = ifExists("Follow", store.Follow)
)

func ifExists(name string, p store.Policy) PushOption {
	return func(o *pushOptions) { o.Policy, o.chosen = p, name }
}

// Debounce is Replace, but the job falls due so long, up to MaxDelay, after the first of these pushes at the latest, however many
// follow. So a burst of triggers is one job, which comes when nothing was pushed for its delay, or after longest. Once the job was
// reserved, or is gone, the next push is the first of a new burst. See Replace for what it goes together with.
func Debounce(longest time.Duration) PushOption {
	return func(o *pushOptions) {
		o.Policy, o.debounced, o.wrong = store.Debounce(longest), true, cmp.Or(o.wrong, checkLength("debounce", longest, MaxDelay))
	}
}

// Once makes a push of the ID count once within the window, up to MaxDelay, whatever becomes of the job: waiting, reserved, done,
// dead or popped. A further push of it changes nothing and returns the ID and ErrExists, as does one of an ID that exists. So a
// push can be made again after a lost answer, and a trigger can be throttled. The window begins with the push that counts, by Redis's clock.
// Remove frees the ID. Other pushes don't look at it, and have no window. See Replace for what it goes together with.
func Once(window time.Duration) PushOption {
	return func(o *pushOptions) {
		o.Policy, o.once, o.wrong = store.Once(window), true, cmp.Or(o.wrong, checkLength("once", window, MaxDelay))
	}
}

// OnceAs is Once for pushes that are to say the same: one that does not count, and says something else than the one that does,
// returns ErrReused, which is ErrExists, too. What they say is content, of any length, such as the message and its options as one text; Redis
// keeps a hash of it. That is not compared with a push of the ID by another option, nor while partitions grow.
func OnceAs(window time.Duration, content string) PushOption {
	sum := sha256.Sum256([]byte(content))
	return func(o *pushOptions) {
		Once(window)(o)
		o.Policy = store.OnceAs(window, base64.RawStdEncoding.EncodeToString(sum[:16]))
	}
}

// Push stores a job that falls due after the delay, and returns its ID. The
// delay counts from now by Redis's clock and is rounded up to milliseconds; with
// delay 0 the job is ready at once, without a server.
//
// The delay has a unit: 30*time.Second. A bare 30 is 30 ns in Go. As the rest of a computed delay
// may be as short, it is taken, but the Client's logger says so once (WithLogger).
//
// An error after which the job is stored all the same is a [ReplicasError] (see [Replicas]); the ID comes with it.
//
// It is one atomic step: with an error from Redis (ErrExists, maxmemory reached) nothing has
// changed. A ctx with a deadline ends the push then, be Redis silent. One that can only be
// cancelled ends it as long as it waits for its turn; a push that is under way gets its
// answer, as long as the connection's timeouts allow. When the connection breaks, or the
// deadline passes, while the answer is due, it is unknown whether the job was stored; pushing
// it again under the same ID is safe unless it may have been consumed by then.
//
// While a node of a Redis Cluster is away a push without an ID gets one of a partition that is well, unless it may be stored already. One
// with an ID belongs to its partition, and fails after 3 s if that is away.
func (c *Client) Push(ctx context.Context, m Message, delay time.Duration, opts ...PushOption) (id string, err error) {
	return c.push(ctx, m, store.Due{After: delay}, checkDelay("delay", delay), opts, nil)
}

// PushAt is Push for a job that falls due at a time, within MaxDelay from now;
// one in the past means at once.
// Redis's clock says when that is.
func (c *Client) PushAt(ctx context.Context, m Message, due time.Time, opts ...PushOption) (id string, err error) {
	return c.push(ctx, m, store.Due{At: due}, checkDue(due), opts, nil)
}

// PushOne is Push or PushAt of one job, and tells what the push did: with ErrExists it is Refused, after any other error that is empty. The
// options of the call go behind the job's own. The error is the Result's, too.
func (c *Client) PushOne(ctx context.Context, job Delayed, opts ...PushOption) (r Result, err error) {
	due, wrong := dueOf(job)
	r.ID, err = c.push(ctx, job.Message, due, wrong, slices.Concat(job.Options, opts), &r.Outcome)
	r.Err = err
	return r, err
}

func (c *Client) push(ctx context.Context, m Message, due store.Due, wrong error, opts []PushOption, report *Outcome) (string, error) {
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
	if due.After > 0 && due.After < time.Millisecond {
		c.note("delay", due.After)
	}
	if c.previous != nil || len(opts) > 0 || report != nil || m.ID == "" && len(c.fleet.Stores) > 1 {
		return c.pushWith(ctx, m, job, &o)
	}
	if err := c.calls.pushes.Do(ctx, c.fleet.Of(job.ID), job); err != nil {
		return "", failed("push", m.ID, err)
	}
	return job.ID, nil
}

// pushWith is push of a job with options, or while there is a previous layout, or whose ID may be of any of several partitions.
func (c *Client) pushWith(ctx context.Context, m Message, job store.Delayed, o *pushOptions) (_ string, err error) {
	if job.Told == nil && (o.report != nil || c.previous != nil) {
		job.Told = new(store.Told) // which may be set when nobody waits any more
	}
	pushes := c.calls.pushes
	switch {
	case job.Replicas.N > 0:
		pushes = c.calls.replicated
	case o.group != nil:
		pushes = c.calls.grouped
	}
	switch {
	case m.ID == "" && o.group == nil: // of such an ID nothing is left in old partitions
		err = c.pushNew(ctx, pushes, &job)
	case c.previous != nil:
		known := func(int) bool { return true }
		err = c.previous.Push(ctx, []store.Delayed{job}, known, func(jobs []store.Delayed, at func(int) *store.Store) []error {
			return each(jobs, func(job store.Delayed) error { return pushes.Do(ctx, at(0), job) })
		})[0]
	default:
		err = pushes.Do(ctx, c.fleet.Of(job.ID), job)
	}
	if !isStored(err) && !errors.Is(err, ErrExists) {
		return "", failed("push", m.ID, err)
	}
	var did store.Outcome
	if job.Told != nil {
		did = job.Told.Did
	}
	return o.pushed(job.StoredID(), did, err)
}

// pushed is what Push returns once it is known what it did.
func (o *pushOptions) pushed(id string, did store.Outcome, err error) (string, error) {
	if o.report != nil {
		*o.report = outcomes[did]
	}
	if !isStored(err) && !o.once {
		return "", failed("push", id, err)
	}
	return id, failed("push", id, err)
}

// newJob is the message as the store takes it, with an ID in any case.
func newJob(m Message, due store.Due, o *pushOptions) (store.Delayed, error) {
	if err := checkPush(m, due, o); err != nil {
		return store.Delayed{}, err
	}
	if o.group != nil {
		if err := o.group.check(m); err != nil {
			return store.Delayed{}, err
		}
		return o.group.job(m, o.Terms), nil
	}
	if m.ID == "" {
		m.ID = store.NewID()
	}
	return store.Delayed{Job: store.Job(m), Due: due, Terms: o.Terms}, nil
}

var defaultPush = pushOptions{Terms: store.Terms{Lifetime: DefaultReadyMaxLifetime, Policy: store.Replace}}

func (o pushOptions) with(opts []PushOption) pushOptions {
	if len(opts) == 0 {
		return o
	}
	with := o // which is allocated, as options get its address
	with.given = true
	for _, opt := range opts {
		if opt == nil {
			with.wrong = invalid("option", "it is nil")
		} else {
			opt(&with)
		}
	}
	return with
}

func checkDue(due time.Time) error {
	if due.IsZero() || time.Until(due) > MaxDelay {
		return invalid("due", fmt.Sprintf("%v is not a time within %v from now", due, MaxDelay))
	}
	return nil
}

func checkPush(m Message, due store.Due, o *pushOptions) error {
	switch {
	case m.Topic == "":
		return invalid("topic", "it is empty")
	case m.Body == "" && !o.mayBeEmpty:
		return invalid("body", "it is empty")
	case o.given:
		if err := o.check(m, due); err != nil {
			return err
		}
	}
	if len(m.ID) > store.MaxID || len(m.Topic) > store.MaxTopic || len(m.Body) > store.MaxBody {
		return cmp.Or(checkSize("id", m.ID, store.MaxID), checkSize("topic", m.Topic, store.MaxTopic), checkSize("body", m.Body, store.MaxBody))
	}
	return nil
}

// check says what is wrong with the options of a push of that message.
func (o *pushOptions) check(m Message, due store.Due) error {
	if o.limited && (o.MaxAttempts < 1 || o.MaxAttempts > math.MaxInt32) {
		return invalid("max attempts", fmt.Sprintf("%d is not from 1 to %d", o.MaxAttempts, math.MaxInt32))
	}
	if o.chosen != "" || o.debounced || o.once || o.group != nil {
		if err := o.checkTogether(m, due); err != nil {
			return err
		}
	}
	var ttr, replicas error
	if o.timed {
		ttr = checkLength("ttr", o.TTR, MaxLease)
	}
	if o.replicated {
		replicas = checkReplicas(o.Replicas)
	}
	return cmp.Or(o.wrong, checkLength("ready max lifetime", o.Lifetime, MaxDelay), ttr, replicas)
}

// checkTogether says which parts of a push of that message do not go together.
func (o *pushOptions) checkTogether(m Message, due store.Due) error {
	given := map[string]bool{
		"id": m.ID != "", "delay": due.After != 0, "due": !due.At.IsZero(), "if_exists": o.chosen != "", "follow": o.chosen == "Follow",
		"debounce": o.debounced, "once": o.once, "group": o.group != nil,
		"group_quiet": o.group != nil && o.group.Quiet != 0, "group_longest": o.group != nil && o.group.Longest != 0,
	}
	if part, why := pushrule.Check(func(part string) bool { return given[part] }, o.nameOf); part != "" {
		return cmp.Or(o.wrong, invalid(o.nameOf(part), why))
	}
	return nil
}

// nameOf is what a part of the push is called in Go.
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

func checkReplicas(r store.Replicas) error {
	if r.N < 1 || r.N > MaxReplicas {
		return invalid("replicas", fmt.Sprintf("%d is not from 1 to %d", r.N, MaxReplicas))
	}
	return checkLength("replicas timeout", r.Within, MaxReplicasTimeout)
}
