package main

import (
	"context"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/config"
	"github.com/mix-basic/delayer/internal/fleet"
	"github.com/mix-basic/delayer/internal/inspect"
)

// command is an entry of the table. Its help is in help/en.txt and help/zh.txt.
type command struct {
	name      string // one or two words
	arguments string // as shown in its help; those in [ ] are optional
	nothing   bool   // exits with 1 if there is no such job, dead letter or schedule
	local     bool   // needs no Redis
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
		{name: "push", arguments: "TOPIC DELAY BODY", begin: beginPush},
		{name: "pop", arguments: "TOPIC", nothing: true, begin: only(runPop)},
		{name: "bpop", arguments: "TOPIC [TIMEOUT]", nothing: true, begin: only(runBPop)},
		{name: "get", arguments: "ID", nothing: true, begin: only(runGet)},
		{name: "list", arguments: "[TOPIC]", begin: beginList},
		{name: "remove", arguments: "ID", nothing: true, begin: beginRemove},
		{name: "reschedule", arguments: "ID DELAY", nothing: true, begin: beginReschedule},
		{name: "worker", arguments: "--topic T [options] (--exec CMD | PROGRAM ARGUMENT...)", program: true, begin: beginWorker},
		{name: "export", arguments: "[TOPIC]", begin: beginExport},
		{name: "import", arguments: "[FILE]", begin: beginImport},
		{name: "stats", arguments: "[TOPIC]", begin: beginStats},
		{name: "topics", begin: beginTopics},
		{name: "forecast", begin: beginForecast},
		{name: "pause", arguments: "TOPIC", begin: beginPause},
		{name: "resume", arguments: "TOPIC", begin: only(runResume)},
		{name: "limit", arguments: "TOPIC", begin: beginLimit},
		{name: "purge", arguments: "TOPIC", begin: beginPurge},
		{name: "dead list", arguments: "TOPIC", begin: beginDeadList},
		{name: "dead groups", arguments: "TOPIC", begin: beginDeadGroups},
		{name: "dead requeue", arguments: "TOPIC [ID]", nothing: true, begin: beginDead("requeued", false, (*call).requeue, (*inspect.Inspector).RequeueDead)},
		{name: "dead drop", arguments: "TOPIC [ID]", nothing: true, begin: beginDead("dropped", true, (*call).drop, (*inspect.Inspector).DropDead)},
		{name: "schedule add", arguments: "NAME SPEC TOPIC BODY", begin: beginScheduleAdd},
		{name: "schedule list", begin: only(runScheduleList)},
		{name: "schedule remove", arguments: "NAME", nothing: true, begin: only(runScheduleRemove)},
		{name: "schedule pause", arguments: "NAME", nothing: true, begin: only(runSchedulePause)},
		{name: "schedule resume", arguments: "NAME", nothing: true, begin: only(runScheduleResume)},
		{name: "schedule run", arguments: "NAME", nothing: true, begin: only(runScheduleRun)},
		{name: "schedule next", arguments: "SPEC", local: true, begin: beginScheduleNext},
		{name: "servers", begin: only(runServers)},
		{name: "partitions", begin: only(runPartitions)},
		{name: "config", begin: only(runConfig)},
		{name: "fsck", begin: beginFsck},
		{name: "doctor", begin: beginDoctor},
		{name: "check", plugin: true, begin: beginCheck},
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
	connections    client.Redis
	client         *client.Client
	jobs           *inspect.Inspector // shares the client's connections
	redis          config.Redis
	pool           client.PoolOptions // of these connections
	stdout, stderr *os.File
}

// execute runs a command against the configured Redis.
func execute(o options, stdout, stderr *os.File) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(endLater(ctx, sameSignal), stop) // from then on, a signal ends the program at once
	c := &call{options: o, stdout: stdout, stderr: stderr}
	if !o.command.local {
		if err := c.open(); err != nil {
			return err
		}
		defer c.client.Close()
	}
	r, err := o.run(ctx, c)
	if err == nil {
		err = c.print(ctx, r)
	}
	return withExitCode(ctx, err)
}

// open connects to Redis. The caller closes the client.
func (c *call) open() error {
	found, err := findConfiguration(c.options)
	if err != nil {
		return err
	}
	printWarnings(c.stderr, found)
	c.redis = found.config.Redis
	c.connections, c.pool, err = connect(c.redis) // not closed: a connection may hang in a call
	if err != nil {
		return err
	}
	c.client, c.jobs = clientOn(c.connections, c.redis), inspectorOn(c.connections, c.redis)
	return nil
}

func clientOn(connections client.Redis, r config.Redis, more ...client.Option) *client.Client {
	return client.New(connections, append(more, client.WithPrefix(r.Prefix), client.WithPartitions(r.Partitions))...)
}

func inspectorOn(connections client.Redis, r config.Redis) *inspect.Inspector {
	return inspect.New(connections, r.Prefix, layoutOf(r))
}

func layoutOf(r config.Redis) fleet.Layout {
	return fleet.Layout{Partitions: r.Partitions}
}
