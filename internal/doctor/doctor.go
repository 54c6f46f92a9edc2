// Package doctor examines an installation and reports only faults. A check is a small function in the table of checks. A check
// without the permissions that it needs counts as not checked, never as fine.
package doctor

import (
	"context"
	"slices"
	"strings"

	"github.com/mix-basic/delayer/internal/fleet"
	"github.com/mix-basic/delayer/internal/inspect"
	"github.com/mix-basic/delayer/internal/redisconn"
	"github.com/mix-basic/delayer/internal/store"
)

// Finding is a fault.
type Finding struct {
	Name     string `json:"name"`     // name of the check
	Evidence string `json:"evidence"` // observed values
	Fix      string `json:"fix"`      // command or setting that repairs the fault
}

// NotChecked is a check that could not be made.
type NotChecked struct {
	Name  string `json:"name"`
	Needs string `json:"needs"` // missing permissions
}

// Report is the result of an examination.
type Report struct {
	Findings   []Finding    `json:"findings"`
	NotChecked []NotChecked `json:"not_checked"`
	Skipped    []string     `json:"skipped"`
	Checked    int          `json:"checked"`
}

// Check examines one thing. Do returns the faults, each with evidence and a fix. If Redis refuses a command, the check needs the
// permissions Needs.
type Check struct {
	Name, Needs string
	Do          func(ctx context.Context, d *Doctor) ([]Finding, error)
}

// Doctor examines the jobs of one prefix.
type Doctor struct {
	Jobs   *inspect.Inspector
	Server func(ctx context.Context) error // checks whether a server can work, as a start does
	Local  []Check                         // checks outside Redis: files and settings
	InHA   bool                            // replicas are expected, because sentinels or a cluster are used

	fleet  *fleet.Fleet
	nodes  []*store.Store
	prefix string
	counts *inspect.Counts
}

// New returns a Doctor for the jobs in that Redis.
func New(r redisconn.Redis, prefix string, l fleet.Layout) *Doctor {
	return &Doctor{Jobs: inspect.New(r, prefix, l), fleet: l.Open(r, prefix), prefix: prefix}
}

// Names returns the names of all checks of Redis.
func Names() (names []string) {
	for _, check := range checks {
		names = append(names, check.Name)
	}
	return names
}

// Examine makes all checks except the skipped ones. It fails only if Redis does not answer; the report then has what was
// found before.
func (d *Doctor) Examine(ctx context.Context, skip []string) (Report, error) {
	r := Report{Findings: []Finding{}, NotChecked: []NotChecked{}, Skipped: []string{}}
	if err := d.make(ctx, d.Local, skip, &r); err != nil {
		return r, err
	}
	if err := d.fleet.Locate(ctx); err != nil {
		return r, err
	}
	d.nodes = store.OneOfEachNode(d.fleet.Stores)
	if err := d.nodes[0].Ping(ctx); err != nil && !strings.Contains(err.Error(), "NOPERM") { // a wrong password, or no answer
		return r, err
	}
	return r, d.make(ctx, checks, skip, &r)
}

// make adds the results of checks to the report.
func (d *Doctor) make(ctx context.Context, checks []Check, skip []string, r *Report) error {
	for _, check := range checks {
		if slices.Contains(skip, check.Name) {
			r.Skipped = append(r.Skipped, check.Name)
			continue
		}
		found, err := check.Do(ctx, d)
		switch {
		case store.Refused(err):
			r.NotChecked = append(r.NotChecked, NotChecked{check.Name, check.Needs})
			continue
		case err != nil:
			return err
		}
		r.Checked++
		for _, f := range found {
			f.Name = check.Name
			r.Findings = append(r.Findings, f)
		}
	}
	return nil
}

// count reads the numbers of jobs, once per examination.
func (d *Doctor) count(ctx context.Context) (inspect.Counts, error) {
	if d.counts == nil {
		counts, err := d.Jobs.Counts(ctx)
		if err != nil {
			return counts, err
		}
		d.counts = &counts
	}
	return *d.counts, nil
}
