package cli

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/config"
	"github.com/mix-basic/delayer/internal/daemon"
	"github.com/mix-basic/delayer/internal/exit"
	"github.com/mix-basic/delayer/internal/fleet"
	"github.com/mix-basic/delayer/internal/inspect"
)

// command is an entry of the table. Its help is in help/en.txt and help/zh.txt.
type command struct {
	name      string // one or two words
	arguments string // as shown in its help; those in [ ] are optional
	nothing   bool   // exits with 1 if there is no such job, dead letter or schedule
	local     bool   // needs no Redis
	v1        bool   // speaks /v1: it works with --url
	plugin    bool   // exits with the codes of a monitoring plugin
	program   bool   // the arguments are a program with its own arguments and flags
	begin     func(*flagSet) action
}

// action runs a parsed command.
type action func(context.Context, *call) (reply, error)

// only returns the action of a command without flags of its own.
func only(run action) func(*flagSet) action { return func(*flagSet) action { return run } }

// commands is the table of all commands. A new command needs an entry here, a function, and a page in help/en.txt and
// help/zh.txt.
func commands() []command {
	return []command{
		{name: "push", arguments: "TOPIC DELAY BODY", v1: true, begin: beginPush},
		{name: "pop", arguments: "TOPIC", nothing: true, begin: only(runPop)},
		{name: "bpop", arguments: "TOPIC [TIMEOUT]", nothing: true, begin: only(runBPop)},
		{name: "get", arguments: "ID", nothing: true, v1: true, begin: only(runGet)},
		{name: "list", arguments: "[TOPIC]", v1: true, begin: beginList},
		{name: "remove", arguments: "[ID]", nothing: true, v1: true, begin: beginChange(http.MethodDelete, "removed")},
		{name: "reschedule", arguments: "[ID] DELAY", nothing: true, v1: true, begin: beginChange(http.MethodPatch, "rescheduled")},
		{name: "worker", arguments: "--topic T [options] (--exec CMD | PROGRAM ARGUMENT...)", program: true, begin: beginWorker},
		{name: "export", arguments: "[TOPIC]", begin: beginExport},
		{name: "import", arguments: "[FILE]", begin: beginImport},
		{name: "stats", arguments: "[TOPIC]", v1: true, begin: beginStats},
		{name: "topics", v1: true, begin: beginTopics},
		{name: "forecast", v1: true, begin: beginForecast},
		{name: "pause", arguments: "TOPIC", v1: true, begin: beginPause},
		{name: "resume", arguments: "TOPIC", v1: true, begin: operation(http.MethodPost, "/v1/topics/{topic}/resume", resumed)},
		{name: "limit", arguments: "TOPIC", v1: true, begin: beginLimit},
		{name: "purge", arguments: "TOPIC", v1: true, begin: beginPurge},
		{name: "dead list", arguments: "TOPIC", v1: true, begin: beginDeadList},
		{name: "dead groups", arguments: "TOPIC", v1: true, begin: operation(http.MethodGet, "/v1/dead/{topic}/groups?limit=10000", deadGroups)},
		{name: "dead requeue", arguments: "TOPIC [ID]", nothing: true, v1: true, begin: beginDead("requeued", "/v1/dead/{topic}/requeue", false)},
		{name: "dead drop", arguments: "TOPIC [ID]", nothing: true, v1: true, begin: beginDead("dropped", "/v1/dead/{topic}/drop", true)},
		{name: "schedule set", arguments: "NAME SPEC TOPIC BODY", v1: true, begin: beginScheduleSet},
		{name: "schedule list", v1: true, begin: operation(http.MethodGet, "/v1/schedules", listing("schedules", "name", "cron", "zone", "topic", "next", "paused", "jobs", "late", "overlapped", "while_paused"))},
		{name: "schedule remove", arguments: "NAME", nothing: true, v1: true, begin: operation(http.MethodDelete, "/v1/schedules/{name}", done("removed"))},
		{name: "schedule pause", arguments: "NAME", nothing: true, v1: true, begin: operation(http.MethodPatch, "/v1/schedules/{name}", done("paused"), "paused", true)},
		{name: "schedule resume", arguments: "NAME", nothing: true, v1: true, begin: operation(http.MethodPatch, "/v1/schedules/{name}", done("resumed"), "paused", false)},
		{name: "schedule run", arguments: "NAME", nothing: true, v1: true, begin: operation(http.MethodPost, "/v1/schedules/{name}/run", shownID)},
		{name: "schedule next", arguments: "SPEC", local: true, begin: beginScheduleNext},
		{name: "servers", v1: true, begin: operation(http.MethodGet, "/v1/servers", servers)},
		{name: "partitions", v1: true, begin: operation(http.MethodGet, "/v1/partitions", partitions)},
		{name: "config", begin: only(runConfig)},
		{name: "fsck", begin: beginFsck},
		{name: "doctor", begin: beginDoctor},
		{name: "nagios", plugin: true, begin: beginNagios},
		{name: "help", arguments: "[COMMAND [SUBCOMMAND]]", local: true, begin: beginHelp},
		{name: "version", local: true, begin: only(runVersion)},
		{name: "completion", arguments: "SHELL", local: true, begin: only(runCompletion)},
		{name: "man", arguments: "[PAGE]", local: true, begin: only(runMan)},
		{name: completeCommand, arguments: "WORD...", local: true, program: true, begin: only(runComplete)},
	}
}

// least is the minimum number of arguments.
func (c *command) least() int {
	if c.program {
		return 0
	}
	return len(strings.Fields(c.arguments)) - strings.Count(c.arguments, "[")
}

// named is how many of its arguments say what it works on: those before a DELAY, a SPEC or a BODY.
func (c *command) named() int {
	words := strings.Fields(c.arguments)
	for i, word := range words {
		if word == "DELAY" || word == "SPEC" || word == "BODY" {
			return i
		}
	}
	return len(words)
}

// most is the maximum number of arguments.
func (c *command) most() int {
	if c.program {
		return 1 << 20
	}
	return len(strings.Fields(c.arguments))
}

// findCommand finds the command whose name, of one or two words, begins the command line. Without such a
// command it returns nil.
func findCommand(words []string) (c *command, rest []string) {
	for _, c := range commands() {
		name := strings.Fields(c.name)
		if len(words) >= len(name) && slices.Equal(words[:len(name)], name) {
			return &c, words[len(name):]
		}
	}
	return nil, nil
}

// subcommands returns the second words of the commands that begin with first.
func subcommands(first string) (list []string) {
	for _, c := range commands() {
		if second, is := strings.CutPrefix(c.name, first+" "); is {
			list = append(list, second)
		}
	}
	return list
}

// firstWords returns the first words of all commands.
func firstWords() (list []string) {
	for _, c := range commands() {
		if first, _, _ := strings.Cut(c.name, " "); c.name != completeCommand && !slices.Contains(list, first) {
			list = append(list, first)
		}
	}
	return list
}

// call is one execution of a command.
type call struct {
	options
	connections    *client.Redis
	client         *client.Client
	fleet          *fleet.Fleet
	jobs           *inspect.Inspector // of the fleet
	found          daemon.Configuration
	redis          config.Redis
	v1             *v1
	pool           client.PoolOptions // of these connections
	stdout, stderr *os.File
}

// execute runs a command against the configured Redis.
func execute(o options, stdout, stderr *os.File) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(endLater(ctx, exit.SameSignal), stop) // from then on, a signal ends the program at once
	c := &call{options: o, stdout: stdout, stderr: stderr}
	if err := c.open(); err != nil {
		return err
	}
	if c.client != nil {
		defer c.client.Close()
	}
	r, err := o.run(ctx, c)
	if err == nil {
		err = c.print(ctx, r)
	}
	return withExitCode(ctx, err)
}

// open connects to what the command works on: the daemon at --url, or Redis. The caller closes the client.
func (c *call) open() (err error) {
	if c.command.v1 {
		if c.v1, err = c.remote(); err != nil || c.v1 != nil {
			return err
		}
	}
	switch {
	case c.url != "":
		return exit.With(exit.Usage, fmt.Errorf("%s does not work over HTTP: leave out --url", c.command.name))
	case c.command.local:
		return nil
	}
	if c.found, err = daemon.FindConfiguration(c.Options); err != nil {
		return err
	}
	c.found.PrintWarnings(c.stderr)
	c.redis = c.found.Redis
	c.connections, c.fleet, c.pool, err = daemon.Connect(c.redis) // not closed: a connection may hang in a call
	if err != nil {
		return err
	}
	if c.client, err = client.New(c.connections, client.WithPrefix(c.redis.Prefix)); err != nil {
		return err
	}
	c.jobs = inspect.New(c.fleet)
	c.v1 = inProcess(c.client, c.jobs)
	return nil
}
