package cli

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/mix-basic/delayer/internal/daemon"
	"github.com/mix-basic/delayer/internal/doctor"
	"github.com/mix-basic/delayer/internal/exit"
	"github.com/mix-basic/delayer/internal/variables"
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

// doctor examines everything. It exits with exit.Redis if Redis is away or refuses the daemon, and with exit.Nothing if it finds another
// fault.
func (c *call) doctor(ctx context.Context, skip []string) error {
	r := c.newDoctor().Examine(ctx, skip)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	err := c.write(ctx, c.doctorText(r))
	switch {
	case err != nil:
		return err
	case slices.ContainsFunc(r.Findings, func(f doctor.Finding) bool { return f.Kind == doctor.Redis }):
		return exit.With(exit.Redis, nil)
	case len(r.Findings) > 0:
		return exit.With(exit.Nothing, nil)
	}
	return nil
}

func (c *call) newDoctor() *doctor.Doctor {
	d := doctor.New(c.fleet)
	d.InHA = len(c.redis.Sentinels) > 0 || len(c.redis.Cluster) > 0
	d.User = cmp.Or(c.redis.Username, "default")
	d.Server = func(ctx context.Context) error { // as a start of the daemon checks it
		s, err := server.New(c.connections, server.Options{Prefix: c.redis.Prefix})
		if err != nil {
			return err
		}
		return daemon.CheckRedis(ctx, s, c.pool)
	}
	d.Local = []doctor.Check{
		{Name: "settings", Do: local(c.wrongSettings)},
		{Name: "secret_files", Do: local(c.openSecrets)},
		{Name: "paths", Do: local(c.wrongPaths)},
		{Name: "sentinels", Needs: "+sentinel|ckquorum of the sentinels' user", Do: func(ctx context.Context, _ *doctor.Doctor) ([]doctor.Finding, error) {
			return checkSentinels(ctx, c.redis, c.pool)
		}},
	}
	return d
}

func local(check func() []doctor.Finding) func(context.Context, *doctor.Doctor) ([]doctor.Finding, error) {
	return func(context.Context, *doctor.Doctor) ([]doctor.Finding, error) { return check(), nil }
}

// wrongSettings finds settings that are ignored or overridden by the environment.
func (c *call) wrongSettings() (list []doctor.Finding) {
	if c.found.File != "" {
		for _, w := range c.found.Warnings {
			list = append(list, doctor.Finding{Evidence: fmt.Sprint(w), Fix: "delayer config shows which settings are in force"})
		}
	}
	return list
}

// openSecrets finds files with secrets that other users may read.
func (c *call) openSecrets() (list []doctor.Finding) {
	if runtime.GOOS == "windows" {
		return nil
	}
	r, files := c.redis, []string{}
	if c.found.File != "" && (r.Password != "" && r.PasswordFile == "" || r.SentinelPassword != "" && r.SentinelPasswordFile == "") && os.Getenv(variables.RedisURL) == "" && c.Redis == "" {
		files = append(files, c.found.File)
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
func (c *call) wrongPaths() (list []doctor.Finding) {
	if c.found.File == "" {
		return nil
	}
	if err := c.found.WrongPaths(); err != nil {
		for line := range strings.Lines(err.Error()) {
			list = append(list, doctor.Finding{Evidence: strings.TrimSpace(line), Fix: "create the folder for the user that runs the daemon, or run this as that user"})
		}
	}
	return list
}

func (c *call) doctorText(r doctor.Report) string {
	if c.json {
		return jsonLine(r) + "\n"
	}
	var b strings.Builder
	for _, f := range r.Findings {
		fmt.Fprintf(&b, "%s: %s\n  fix: %s\n", f.Kind, printable(strings.ReplaceAll(f.String(), "\n", "; "), ""), printable(f.Fix, ""))
	}
	for _, n := range r.NotChecked {
		fmt.Fprintf(&b, "not checked: %s needs %s\n", n.Name, n.Needs)
	}
	verdict := "nothing is wrong"
	if n := len(r.Findings); n > 0 {
		verdict = fmt.Sprintf("findings: %d", n)
	}
	fmt.Fprintf(&b, "%d checks made, %d not made, %d skipped: %s\n", r.Checked, len(r.NotChecked)+len(r.Failed), len(r.Skipped), verdict)
	return b.String()
}
