// Package doctor examines an installation and reports only faults. A check is a small function in the table of checks. A check
// without the permissions that it needs counts as not checked, never as fine.
package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/mix-basic/delayer/internal/fleet"
	"github.com/mix-basic/delayer/internal/health"
	"github.com/mix-basic/delayer/internal/inspect"
	"github.com/mix-basic/delayer/internal/store"
	"github.com/mix-basic/delayer/server"
)

// Finding is a fault.
type Finding = health.Finding

// NotChecked is a check that could not be made.
type NotChecked struct {
	Name  string `json:"name"`
	Needs string `json:"needs"` // missing permissions
}

// Report is the result of an examination.
type Report struct {
	Findings   []Finding    `json:"findings"`
	NotChecked []NotChecked `json:"not_checked"`
	Failed     []string     `json:"failed"` // checks that an error kept from being made; the error is a finding
	Skipped    []string     `json:"skipped"`
	Checked    int          `json:"checked"`
}

// Check examines one thing. Do returns the faults, each with evidence and a fix, also with an error. If Redis refuses a command, the check
// needs the permissions Needs.
type Check struct {
	Name, Needs string
	Do          func(ctx context.Context, d *Doctor) ([]Finding, error)
}

// Doctor examines the jobs of one prefix.
type Doctor struct {
	Jobs   *inspect.Inspector
	Server func(ctx context.Context) error // checks whether the daemon can work, as its start does
	User   string                          // of Redis
	Local  []Check                         // checks outside Redis: files and settings
	InHA   bool                            // replicas are expected, because sentinels or a cluster are used

	fleet *fleet.Fleet
	nodes []fleet.Server
	away  map[*store.Store]error // nodes that do not answer, which are not asked again
	view  *health.View
	start error // of Server
}

// New returns a Doctor for these jobs.
func New(jobs *fleet.Fleet) *Doctor {
	return &Doctor{Jobs: inspect.New(jobs), fleet: jobs}
}

// Names returns the names of all checks of Redis.
func Names() (names []string) {
	for _, check := range checks {
		names = append(names, check.Name)
	}
	return names
}

// Examine makes all checks except the skipped ones. What keeps a check from being made is a finding. If Redis does not respond, or refuses
// the user, that is the last one.
func (d *Doctor) Examine(ctx context.Context, skip []string) Report {
	r := Report{Findings: []Finding{}, NotChecked: []NotChecked{}, Failed: []string{}, Skipped: []string{}}
	err := d.make(ctx, d.Local, skip, &r)
	if err == nil {
		err = d.reach(ctx)
	}
	if err == nil {
		d.view = health.Look(ctx, d.Jobs)
		err = d.make(ctx, checks, skip, &r)
	}
	if err != nil {
		r.Findings = append(r.Findings, d.unreached(err))
		made := max(r.Checked+len(r.NotChecked)+len(r.Failed)+len(r.Skipped)-len(d.Local), 0)
		for _, check := range checks[made:] {
			r.Failed = append(r.Failed, check.Name)
		}
	}
	return r
}

// reach makes the check of a start, and finds the nodes. If it fails because Redis refuses the daemon, its error is the start's, which
// knows more.
func (d *Doctor) reach(ctx context.Context) error {
	d.start = d.Server(ctx)
	nodes, err := d.fleet.Servers(ctx)
	if err == nil {
		d.nodes, d.away = nodes, map[*store.Store]error{}
		err = d.ping(ctx)
	}
	if err != nil && errors.Is(d.start, server.ErrRefused) {
		return d.start
	}
	return err
}

// ping returns why no node works for us. A node that refuses only the PING does.
func (d *Doctor) ping(ctx context.Context) (err error) {
	for _, node := range d.nodes {
		err = node.Store.Ping(ctx)
		if kind := store.KindOf(err); kind != store.NoAnswer && (kind != store.Denied || store.LacksPermission(err)) {
			return nil
		}
	}
	return err
}

// make adds the results of checks to the report.
func (d *Doctor) make(ctx context.Context, checks []Check, skip []string, r *Report) error {
	for _, check := range checks {
		if slices.Contains(skip, check.Name) {
			r.Skipped = append(r.Skipped, check.Name)
			continue
		}
		found, err := check.Do(ctx, d)
		for _, f := range found {
			f.Kind, f.Level = cmp.Or(f.Kind, check.Name), cmp.Or(f.Level, health.Warning)
			r.Findings = append(r.Findings, f)
		}
		switch {
		case err == nil:
			r.Checked++
			continue
		case store.Refused(err):
			r.NotChecked = append(r.NotChecked, NotChecked{check.Name, check.Needs})
			continue
		case ctx.Err() != nil:
			return err
		}
		r.Failed = append(r.Failed, check.Name)
		unread := health.NotRead(check.Name, err)
		if !slices.ContainsFunc(r.Findings, func(f Finding) bool { return strings.HasSuffix(f.String(), unread.Evidence) }) {
			r.Findings = append(r.Findings, unread)
		}
		if store.KindOf(err) == store.NoAnswer && d.nodes != nil {
			if away := d.ping(ctx); away != nil {
				return away
			}
		}
	}
	return nil
}

// each makes a check of every node. It returns one of the errors, one that is no refusal if there is any.
func (d *Doctor) each(check func(node *store.Store) ([]Finding, error)) (all []Finding, failed error) {
	for _, node := range d.nodes {
		var found []Finding
		err := d.away[node.Store]
		if err == nil {
			found, err = check(node.Store)
		}
		name := ""
		if len(d.nodes) > 1 {
			name = "node " + node.Addr
		}
		for _, f := range found {
			f.What = name
			all = append(all, f)
		}
		if store.KindOf(err) == store.NoAnswer {
			d.away[node.Store] = err
		}
		if err != nil && (failed == nil || store.Refused(failed)) {
			if failed = err; name != "" {
				failed = fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	return all, failed
}

// judged is a check of what was read of the jobs.
func judged(judge func(*health.View) ([]Finding, error)) func(context.Context, *Doctor) ([]Finding, error) {
	return func(_ context.Context, d *Doctor) ([]Finding, error) { return judge(d.view) }
}

// Redis is the name of the check that fails if Redis does not respond, or refuses the daemon, whose start would fail.
const Redis = "redis"

// checkRedis finds that Redis refuses the daemon.
func checkRedis(_ context.Context, d *Doctor) ([]Finding, error) {
	switch err := d.start; {
	case errors.Is(err, server.ErrRefused):
		return []Finding{d.unreached(err)}, nil
	case errors.Is(err, server.ErrNoChannel), errors.Is(err, server.ErrNoFeature), errors.Is(err, server.ErrEvicts):
		return nil, nil
	default:
		return nil, err
	}
}

// unreached is the finding that Redis does not respond, or refuses the daemon.
func (d *Doctor) unreached(err error) Finding {
	f := health.NotRead("", err)
	f.Kind = Redis
	switch {
	case store.LacksPermission(err):
		f.Fix = d.grant()
	case errors.Is(err, server.ErrRefused):
		f.Fix = "correct what it names in [redis] of delayer.conf: username, password, database, tls, partitions"
	}
	return f
}

// checkStart returns a check of what keeps the daemon from doing all, though it would start.
func checkStart(kind error) func(context.Context, *Doctor) ([]Finding, error) {
	return func(_ context.Context, d *Doctor) ([]Finding, error) {
		if !errors.Is(d.start, kind) {
			return nil, nil
		}
		return one(partOf(d.start, kind).Error(), d.grant()), nil
	}
}

// partOf returns the joined error that matches kind.
func partOf(err, kind error) error {
	if joined, is := err.(interface{ Unwrap() []error }); is {
		for _, part := range joined.Unwrap() {
			if part != kind && errors.Is(part, kind) {
				return partOf(part, kind)
			}
		}
	}
	return err
}

// The commands of the daemon in docs/access.md, and what it needs besides in a Cluster.
const (
	daemonCommands  = "+evalsha +eval +time +exists +zcount +zrange +hget +hmget +zmscore +zadd +zrem +llen +lpos +lrange +lpush +lmove +rpop +rename +hincrby +zrangebyscore +type +del +hset +hdel +hlen +hrandfield +hscan +hstrlen +get +pexpire +pttl +persist +zscore +zpopmin +publish +subscribe +ping +select"
	clusterCommands = "+cluster|slots +ssubscribe +sunsubscribe +spublish +pubsub|shardnumsub"
)

// grant is the ACL line that gives the Redis user all that the daemon needs.
func (d *Doctor) grant() string {
	words := []string{"redis-cli, then ACL SETUSER", d.User, "~" + d.fleet.Prefix + "*", "&" + d.fleet.Prefix + "*", daemonCommands}
	if d.fleet.Stores[0].InCluster() {
		words = append(words, clusterCommands, "(on every node)")
	}
	return strings.Join(words, " ")
}
