package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/config"
	"github.com/mix-basic/delayer/internal/daemon"
	"github.com/mix-basic/delayer/internal/doctor"
	"github.com/mix-basic/delayer/internal/exit"
	"github.com/mix-basic/delayer/internal/health"
	"github.com/mix-basic/delayer/internal/redisconn"
	"github.com/mix-basic/delayer/internal/store"
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

// checkSentinels asks each sentinel for the master, and whether enough sentinels are there for a failover.
func checkSentinels(ctx context.Context, r config.Redis, o client.PoolOptions) (list []doctor.Finding, _ error) {
	if len(r.Sentinels) == 0 {
		return nil, nil
	}
	sentinels := daemon.Sentinels(o)
	var masters []string
	var denied error
	for _, sentinel := range r.Sentinels {
		master, err := askSentinel(ctx, sentinels.To(sentinel), r.SentinelMaster)
		switch refusal := redis.Error(""); {
		case store.Refused(err):
			denied = err
		case errors.As(err, &refusal):
			list = append(list, doctor.Finding{Evidence: fmt.Sprintf("sentinel %s says: %v", sentinel, err), Fix: "start the other sentinels; redis-cli SENTINEL SENTINELS " + r.SentinelMaster})
		case err != nil:
			list = append(list, doctor.Finding{Evidence: fmt.Sprintf("sentinel %s does not respond: %v", sentinel, unreachable(err)), Fix: "start it, or remove it from redis.sentinels"})
		}
		if master != "" {
			masters = append(masters, sentinel+" names "+master)
			if _, first, _ := strings.Cut(masters[0], " names "); first != master {
				list = append(list, doctor.Finding{Evidence: "sentinels disagree about the master: " + masters[0] + ", " + masters[len(masters)-1], Fix: "wait for the end of a failover; else redis-cli SENTINEL RESET " + r.SentinelMaster})
			}
		}
	}
	if len(list) == 0 {
		return nil, denied
	}
	return list, nil
}

// askSentinel returns the address of the master, also with the error about the number of sentinels.
func askSentinel(ctx context.Context, d redisconn.Dialer, name string) (master string, err error) {
	conn, err := d.Dial(ctx)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	parts, err := redis.Strings(redis.DoContext(conn, ctx, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", name))
	if err != nil || len(parts) != 2 {
		return "", err
	}
	_, err = redis.DoContext(conn, ctx, "SENTINEL", "CKQUORUM", name)
	return net.JoinHostPort(parts[0], parts[1]), err
}

// beginNagios prepares a Nagios plugin: it prints one line, and its exit code is the status.
func beginNagios(f *flagSet) action {
	warning, critical := maps.Clone(health.DefaultWarning), maps.Clone(health.DefaultCritical)
	f.one("warning", warning.Parse)
	f.one("critical", critical.Parse)
	return func(ctx context.Context, c *call) (reply, error) {
		status, line, err := health.Look(ctx, c.jobs).Monitor(warning, critical)
		if err != nil {
			if ctx.Err() != nil && errors.Is(err, context.Canceled) {
				return reply{}, err
			}
			line = fmt.Sprintf("DELAYER %v - Redis: %v", status, unreachable(err))
		}
		if err := c.write(ctx, exit.OneLine(line)+"\n"); err != nil || status == health.OK {
			return reply{}, err
		}
		return reply{}, exit.With(int(status), nil)
	}
}
