package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/mix-basic/delayer/config"
	"github.com/mix-basic/delayer/internal/doctor"
	"github.com/mix-basic/delayer/internal/health"
	"github.com/mix-basic/delayer/server"
)

// localChecks are the names of the checks of files, settings and sentinels.
var localChecks = []string{"settings", "secret_files", "paths", "sentinels"}

func beginDoctor(f *flagSet) action {
	var skip []string
	f.several("skip", func(name string) error {
		if !slices.Contains(doctor.Names(), name) && !slices.Contains(localChecks, name) {
			return fmt.Errorf("want one of %s", strings.Join(slices.Concat(localChecks, doctor.Names()), ", "))
		}
		skip = append(skip, name)
		return nil
	})
	return func(ctx context.Context, c *call) (reply, error) { return reply{}, c.doctor(ctx, skip) }
}

// doctor examines everything. It exits with exitRedis if Redis is away or refuses the daemon, and with exitNothing if it finds another
// fault.
func (c *call) doctor(ctx context.Context, skip []string) error {
	found, err := findConfiguration(c.options)
	if err != nil {
		return err
	}
	r := c.newDoctor(found).Examine(ctx, skip)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	err = c.write(ctx, c.doctorText(r))
	switch {
	case err != nil:
		return err
	case slices.ContainsFunc(r.Findings, func(f doctor.Finding) bool { return f.Kind == doctor.Redis }):
		return fail(exitRedis, nil)
	case len(r.Findings) > 0:
		return fail(exitNothing, nil)
	}
	return nil
}

func (c *call) newDoctor(found configuration) *doctor.Doctor {
	d := doctor.New(c.connections, c.redis.Prefix, layoutOf(c.redis))
	d.InHA = len(c.redis.Sentinels) > 0 || len(c.redis.Cluster) > 0
	d.User = cmp.Or(c.redis.Username, "default")
	d.Server = c.checkServer
	d.Local = []doctor.Check{
		{Name: "settings", Do: local(func() []doctor.Finding { return wrongSettings(found) })},
		{Name: "secret_files", Do: local(func() []doctor.Finding { return openSecrets(c.options, found) })},
		{Name: "paths", Do: local(func() []doctor.Finding { return wrongPaths(found) })},
		{Name: "sentinels", Needs: "+sentinel|ckquorum of the sentinels' user", Do: func(ctx context.Context, _ *doctor.Doctor) ([]doctor.Finding, error) {
			return checkSentinels(ctx, c.redis, c.pool)
		}},
	}
	return d
}

// checkServer makes the check of Redis that a start of the daemon makes.
func (c *call) checkServer(ctx context.Context) error {
	return checkRedis(ctx, server.New(c.connections, server.Options{Prefix: c.redis.Prefix, Partitions: c.redis.Partitions}), c.pool)
}

func local(check func() []doctor.Finding) func(context.Context, *doctor.Doctor) ([]doctor.Finding, error) {
	return func(context.Context, *doctor.Doctor) ([]doctor.Finding, error) { return check(), nil }
}

// wrongSettings finds settings that are ignored or overridden by the environment.
func wrongSettings(found configuration) (list []doctor.Finding) {
	if found.isFile {
		for _, w := range found.warnings {
			list = append(list, doctor.Finding{Evidence: fmt.Sprint(w), Fix: "delayer config shows which settings are in force"})
		}
	}
	return list
}

// openSecrets finds files with secrets that other users may read.
func openSecrets(o options, found configuration) (list []doctor.Finding) {
	if runtime.GOOS == "windows" {
		return nil
	}
	r, files := found.config.Redis, []string{}
	if found.isFile && (r.Password != "" && r.PasswordFile == "" || r.SentinelPassword != "" && r.SentinelPasswordFile == "") && os.Getenv(config.URLVariable) == "" && o.redis == "" {
		files = append(files, cmp.Or(o.configuration, found.searched))
	}
	for _, file := range append(files, r.PasswordFile, r.SentinelPasswordFile) {
		info, err := os.Stat(file)
		if file != "" && err == nil && info.Mode().IsRegular() && info.Mode()&0o004 != 0 {
			list = append(list, doctor.Finding{Evidence: fmt.Sprintf("%s has a password, and everybody may read it (%v)", file, info.Mode()), Fix: "chmod o-r " + file})
		}
	}
	return list
}

// wrongPaths finds paths of the daemon that can't be written.
func wrongPaths(found configuration) (list []doctor.Finding) {
	if !found.isFile {
		return nil
	}
	ownPaths(&found.config.Delayer)
	if err := tryPaths(found.config.Delayer); err != nil {
		for line := range strings.Lines(err.Error()) {
			list = append(list, doctor.Finding{Evidence: strings.TrimSpace(line), Fix: "create the folder for the user that runs the daemon, or run this as that user"})
		}
	}
	return list
}

func (c *call) doctorText(r doctor.Report) string {
	if c.json {
		text, _ := json.Marshal(r)
		return string(text) + "\n"
	}
	verdict, notMade := "nothing is wrong", len(r.NotChecked)+len(r.Failed)
	if n := len(r.Findings); n > 0 {
		verdict = fmt.Sprintf("findings: %d", n)
	}
	return findingsText(r) + fmt.Sprintf("%d checks made, %d not made, %d skipped: %s\n", r.Checked, notMade, len(r.Skipped), verdict)
}

func findingsText(r doctor.Report) string {
	var b strings.Builder
	for _, f := range r.Findings {
		fmt.Fprintf(&b, "%s: %s\n  fix: %s\n", f.Kind, printable(strings.ReplaceAll(f.String(), "\n", "; "), ""), printable(f.Fix, ""))
	}
	for _, n := range r.NotChecked {
		fmt.Fprintf(&b, "not checked: %s needs %s\n", n.Name, n.Needs)
	}
	return b.String()
}

func beginCheck(f *flagSet) action {
	warning, critical := health.Limits{}, health.Limits{}
	f.one("warning", warning.Parse)
	f.one("critical", critical.Parse)
	return func(ctx context.Context, c *call) (reply, error) {
		return reply{}, c.monitor(ctx, filled(warning, health.DefaultWarning), filled(critical, health.DefaultCritical))
	}
}

// filled returns the given limits, completed with the standard ones.
func filled(given, standard health.Limits) health.Limits {
	for name, limit := range standard {
		if _, is := given[name]; !is {
			given[name] = limit
		}
	}
	return given
}

// monitor is a Nagios plugin: it prints one line, and its exit code is the status.
func (c *call) monitor(ctx context.Context, warning, critical health.Limits) error {
	status, line, err := health.Look(ctx, c.jobs).Monitor(warning, critical)
	if err != nil {
		if ctx.Err() != nil && errors.Is(err, context.Canceled) {
			return err
		}
		line = fmt.Sprintf("DELAYER %v - Redis: %v", status, unreachable(err))
	}
	if err := c.write(ctx, inOneLine(line)+"\n"); err != nil || status == health.OK {
		return err
	}
	return fail(int(status), nil)
}
