// Package daemon is the daemon as a process: its configuration, pid file, background, signals, reload, logs and HTTP server. Package
// server does its work.
package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/config"
	"github.com/mix-basic/delayer/internal/async"
	"github.com/mix-basic/delayer/internal/exit"
	"github.com/mix-basic/delayer/internal/fleet"
	"github.com/mix-basic/delayer/logger"
	"github.com/mix-basic/delayer/server"
)

const (
	// checkWait is how long a start waits for Redis before it continues without it.
	checkWait = 5 * time.Second
	// stopWait is the last resort if the server does not end within its own 4 s. The rest of the promised 5 s is for the
	// console's last lines.
	stopWait = 4300 * time.Millisecond
)

// mode holds the differences between foreground and background.
type mode struct {
	hangUp   bool                        // SIGHUP always stops the service
	ready    func(*service) error        // called when the service has started
	reopened func(errorLog string) error // called when the logs were reopened
}

var foreground = mode{
	ready:    func(*service) error { return nil },
	reopened: func(string) error { return nil },
}

// Serve runs the daemon from reading its configuration until a signal ends it or, with Options.Background, until it has started.
func Serve(o Options, stdout, stderr *os.File) error {
	if o.Background {
		return serveInBackground(o, stdout, stderr)
	}
	return serve(o, foreground, stdout, stderr)
}

func serve(o Options, m mode, stdout, stderr io.Writer) error {
	signals := exit.Notify(m.hangUp)
	signals.Reload()
	found, err := FindConfiguration(o)
	if err != nil {
		return err
	}
	async.Briefly(func() { found.PrintWarnings(stderr) })
	c, notes, last := found.Config, []string(nil), ""
	if o.Dev {
		redis, devNotes, err := startDev(o, &c)
		if err != nil {
			return err
		}
		defer redis.Close()
		notes = devNotes
		last = whereDevIs(found.Redis, c.Redis)
	}
	notes = append(notes, ownPaths(&c.Delayer)...)
	if runtime.GOOS == "windows" && c.Delayer.PID != "" {
		notes = append(notes, "Note: delayer.pid does not apply on Windows, several instances may run.")
	}
	pool, jobs, poolOptions, err := Connect(c.Redis)
	if err != nil {
		return err
	}
	defer pool.Close()

	pid, err := lockPIDFile(c.Delayer.PID)
	if err != nil {
		return err
	}
	defer pid.release()
	log, err := logger.Open(logger.Options{AccessLog: c.Delayer.AccessLog, ErrorLog: c.Delayer.ErrorLog, Console: stdout, JSON: c.Delayer.LogFormat == "json"})
	if err != nil {
		return exit.With(exit.Usage, err)
	}
	defer log.Close()

	f, err := openHTTP(c, o, poolOptions, log)
	if err != nil {
		return err
	}
	if f != nil {
		defer f.close()
		notes = append(notes, "HTTP server:\t"+f.url)
	}
	s := &service{
		mode: m, config: c, signals: signals, log: log, http: f, redis: pool, jobs: jobs, pool: poolOptions, recovered: newRecovery(),
		found: found, options: found.again(), secured: c.HTTP.Token != "" || len(c.HTTP.Users) > 0,
		newSchedules: make(chan []config.Schedule, 1),
	}
	if err := s.newServer(); err != nil {
		return exit.With(exit.Failed, err)
	}
	return s.run(banner(o.Version, found.from, notes), last)
}

func (s *service) newServer() (err error) {
	if s.systemd, err = newNotifier(); err != nil {
		return err
	}
	c := s.config
	s.server, err = server.New(s.redis, server.Options{
		Interval: c.Delayer.TimerInterval, Prefix: c.Redis.Prefix,
		DeadMaxAge: cmp.Or(c.Delayer.DeadMaxAge, -1), DeadMax: c.Delayer.DeadMax, Version: s.options.Version, Logger: slog.New(s.log.Handler()),
		Hooks: s.hooks(),
	})
	return err
}

// hooks tell metrics, systemd, and the schedules of the file what the server does.
func (s *service) hooks() server.Hooks {
	counted := server.Hooks{Moved: func(string, server.Moved) {}, Passed: func(time.Duration, error) {}}
	if s.http != nil {
		counted = s.http.metrics.Hooks()
	}
	h := counted
	h.Moved = func(topic string, m server.Moved) {
		counted.Moved(topic, m)
		s.systemd.jobsMoved(m.Jobs)
	}
	h.Passed = func(took time.Duration, err error) {
		counted.Passed(took, err)
		s.recovered.passed(err)
		s.systemd.passed(err)
	}
	return h
}

// service is the daemon once its logs are open.
type service struct {
	mode    mode
	config  config.Config
	signals *exit.Signals
	log     *logger.Logger
	http    *httpServer // nil: none
	redis   *client.Redis
	jobs    *fleet.Fleet       // in redis, for the file's schedules
	pool    client.PoolOptions // of redis

	found        Configuration // at the start
	options      Options       // to find it again
	folder       string        // that it was started in, once it has left it
	secured      bool          // the HTTP server has a token or users
	server       *server.Server
	newSchedules chan []config.Schedule // from a reload

	recovered      *recovery
	systemd        *notifier     // nil without systemd
	schedulesEvery time.Duration // for tests: replaces schedulesEvery and schedulesAgain
}

func (s *service) run(banner, last string) error {
	checked, err := s.check()
	if err != nil || !s.signals.Stopped.IsZero() {
		return err
	}
	waits := waitsForRedis(checked)
	if s.config.Delayer.LogFormat != "json" { // plain text would break JSON
		s.log.Print(banner + s.whereRedisIs(waits == ""))
	}
	s.log.Info(fmt.Sprintf("Service started successfully, PID: %d%s", os.Getpid(), waits))
	for _, w := range s.found.Warnings {
		s.log.Error(w)
	}
	if why := evicts(checked); why != nil {
		s.log.Error(fmt.Sprintf("redis on %s: %v", whereIs(s.config.Redis), why))
	}
	if last != "" {
		s.log.Info(last)
	}
	if err := s.mode.ready(s); err != nil {
		return s.fail(exit.Failed, err)
	}
	if err := s.during(s.work); err != nil {
		return s.fail(exit.Failed, err)
	}
	s.log.Info(fmt.Sprintf("Service stopped successfully, PID: %d", os.Getpid()))
	return nil
}

// whereRedisIs returns a line of the banner for sentinels and clusters: their addresses and, if Redis answers, the
// current master.
func (s *service) whereRedisIs(answers bool) string {
	r := s.config.Redis
	if len(r.Sentinels) == 0 && len(r.Cluster) == 0 {
		return ""
	}
	line := "Redis:\t\t" + whereIs(r)
	if len(r.Sentinels) > 0 && answers {
		ctx, cancel := context.WithTimeout(context.Background(), checkWait)
		defer cancel()
		if master, err := Sentinels(s.pool).Master(ctx); err == nil {
			line += ": now at " + master
		}
	}
	return line + "\n"
}

// work runs the server, the HTTP server and the schedules of the file.
func (s *service) work(ctx context.Context) error {
	var serving sync.WaitGroup
	if s.http != nil {
		serving.Go(func() { s.http.serve(ctx, s.log) })
	}
	if s.found.File != "" {
		serving.Go(func() { s.keepSchedules(ctx) })
	}
	err := s.server.Run(ctx)
	serving.Wait()
	return err
}

// check fails if Redis refuses the server. A Redis that is down is no failure: the server waits for it. checked is the
// result for the start's line.
func (s *service) check() (checked, err error) {
	checked = s.during(func(ctx context.Context) error { return CheckRedis(ctx, s.server, s.pool) })
	switch {
	case errors.Is(checked, server.ErrRefused):
		return nil, s.fail(exit.Redis, fmt.Errorf("redis on %s: %w", whereIs(s.config.Redis), checked))
	case errors.Is(checked, exit.ErrCutOff):
		return nil, s.fail(exit.Failed, checked)
	}
	return checked, nil
}

// during runs work until it ends or a signal ends it.
func (s *service) during(work func(context.Context) error) error {
	stopping := func(os.Signal) time.Duration {
		s.systemd.stopping()
		return stopWait
	}
	return s.signals.During(work, stopping, s.reopen, s.reload)
}

// reopen is for log rotation: later lines go to the files that have the logs' names now.
func (s *service) reopen() {
	err := errors.Join(s.log.Reopen(), s.mode.reopened(s.config.Delayer.ErrorLog))
	if err != nil {
		s.log.Error(fmt.Sprintf("Logs could not be reopened: %v", err))
	}
}

// fail writes the error only to the error log; the program prints it.
func (s *service) fail(code int, err error) error {
	s.log.CloseConsole()
	s.log.Error(err.Error())
	return exit.With(code, err)
}

const logo = `    ____       __
   / __ \___  / /___ ___  _____  _____
  / / / / _ \/ / __ ` + "`" + `/ / / / _ \/ ___/
 / /_/ /  __/ / /_/ / /_/ /  __/ /
/_____/\___/_/\__,_/\__, /\___/_/
                   /____/
`

// banner returns the text that a start prints, with one line per note at its end.
func banner(version, searched string, notes []string) string {
	text := logo + "Service:\t\tdelayer\nVersion:\t\t" + version + "\n"
	if searched != "" {
		text += "Configuration:\t" + searched + "\n"
	}
	for _, note := range notes {
		text += note + "\n"
	}
	return text
}

// reloadable lists the settings, besides schedules, that a reload applies. Certificates are reloaded
// automatically.
var reloadable = []string{
	"delayer.dead_max_age", "delayer.dead_max", "http.token", "http.token_file", "http.users", "http.users_file",
}

// again reads the configuration again. Relative paths in it are relative to the folder that the service was started in. All that is
// opened later has a full path.
func (s *service) again() (Configuration, error) {
	if s.folder != "" {
		if err := os.Chdir(s.folder); err != nil {
			return Configuration{}, err
		}
		defer os.Chdir("/")
	}
	return FindConfiguration(s.options)
}

// reload reads the configuration again, applies the settings that can change while the daemon runs, and logs other
// changes. A mistake changes nothing.
func (s *service) reload() {
	found, err := s.again()
	if err != nil {
		s.log.Error("The configuration was not reloaded, the previous one stays in force: " + exit.OneLine(err.Error()))
		return
	}
	var waiting []string
	for i, setting := range found.Settings {
		if setting.Value != s.found.Settings[i].Value && !slices.Contains(reloadable, setting.Name) {
			waiting = append(waiting, setting.Name)
		}
	}
	c := found.Config
	if r := s.found.Redis; c.Redis.Password != r.Password || c.Redis.SentinelPassword != r.SentinelPassword {
		waiting = append(waiting, "redis: a password")
	}
	s.server.SetDeadLimits(cmp.Or(c.Delayer.DeadMaxAge, -1), c.Delayer.DeadMax)
	switch users := usersOf(c.HTTP); {
	case s.http == nil:
	case c.HTTP.Token == "" && len(users) == 0 && s.secured:
		waiting = append(waiting, "http: no token and no users") // with another listen address this may be intended for localhost
	default:
		s.http.web.SetCredentials(c.HTTP.Token, users)
		s.secured = c.HTTP.Token != "" || len(users) > 0
	}
	if found.File != "" {
		select {
		case <-s.newSchedules: // from an unhandled reload
		default:
		}
		s.newSchedules <- c.Schedules
	}
	line := "Configuration reloaded: schedules, token, users and limits of dead letters are in force"
	if len(waiting) > 0 {
		line += "; a restart is needed for " + strings.Join(waiting, ", ")
	}
	if os.Getenv("CREDENTIALS_DIRECTORY") != "" {
		line += "; systemd loads new credentials at a restart only"
	}
	s.log.Info(line)
	for _, w := range found.Warnings {
		s.log.Error(fmt.Sprint(w))
	}
}
