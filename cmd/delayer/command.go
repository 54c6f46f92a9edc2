package main

import (
	"context"
	"flag"
	"fmt"
	"math"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/config"
	"github.com/mix-basic/delayer/internal/store"
)

// command is one of the client's commands.
type command struct {
	name        string
	arguments   string // as the usage shows them
	help        string
	least, most int                           // arguments
	flags       func(*flag.FlagSet, *options) // defines flags of its own; nil: none
	options     string                        // the lines on them in the usage
	check       func(*options) error          // of the flags and the arguments together; nil: none
	local       bool                          // it asks Redis nothing
	program     bool                          // the arguments are a program and its own arguments and flags
	note        string                        // what else the usage says of it
	run         func(context.Context, *call) (reply, error)
}

// call is one execution of a command.
type call struct {
	options                       // with as many arguments as the table allows
	client         *client.Client // closed by the caller
	pool           client.PoolOptions
	redis          config.Redis
	stdout, stderr *os.File
}

// commands is the table of all commands, in the order of the usage.
func commands() []command {
	return []command{
		{name: "push", arguments: "TOPIC DELAY BODY [--id ID]", least: 3, most: 3, run: runPush,
			help: "push a job that is due after DELAY, and print its ID; a BODY of - reads standard input",
			flags: func(f *flag.FlagSet, o *options) {
				f.Func("id", "", setOnce(&o.id, "a job's ID"))
				f.Func("once", "", setDuration(&o.once, maxTime))
				f.Func("debounce", "", setDuration(&o.debounce, maxTime))
				boolean(f, &o.follow, "follow")
				f.Func("group", "", setOnce(&o.group, "a group's key"))
				f.Func("max", "", setNumber(&o.max, math.MaxInt32))
				f.Func("quiet", "", setDuration(&o.quiet, maxTime))
				f.Func("longest", "", setDuration(&o.longest, maxTime))
				f.Func("ttr", "", setDuration(&o.ttr, maxLease))
				f.Func("max-attempts", "", setNumber(&o.maxAttempts, math.MaxInt32))
				f.Func("replicas", "", setNumber(&o.replicas, client.MaxReplicas))
				f.Func("replicas-timeout", "", setDuration(&o.replicasTimeout, maxReplicasTimeout))
			},
			check: checkPush,
			options: "--id ID -- the job's ID; a random one if not given\n" +
				"--once D -- count pushes of the ID once within D, whatever becomes of the job; another one with --once changes nothing, says so, and exits with 0\n" +
				"--debounce D -- make one job of all such pushes of the ID, due D after the first of them at the latest\n" +
				"--follow -- leave a job of the ID alone that is reserved: this one takes its place when it is done\n" +
				"--group KEY -- make one job of all such pushes of the topic and KEY, a JSON array of their bodies, which must be JSON; DELAY is 0, and --id only with --once\n" +
				"--max N -- deliver the group when there are N of them\n" +
				"--quiet D -- deliver it when none came for D\n" +
				"--longest D -- deliver it D after the first; this or --quiet goes with --group\n" +
				"--ttr D -- the lease of a consumer who reserves the job and names none, up to 24h; 30s if not given\n" +
				"--max-attempts N -- how often the job is tried before it becomes a dead letter\n" +
				"--replicas N -- wait until N replicas of Redis have the job; if they are too few in time, fail: it is stored all the same\n" +
				"--replicas-timeout D -- for how long to wait for them, up to 10s; 1s if not given\n"},
		{name: "pop", arguments: "TOPIC", least: 1, most: 1, run: runPop,
			help: "take the topic's first job that is ready", note: popNote},
		{name: "bpop", arguments: "TOPIC [TIMEOUT]", least: 1, most: 2, run: runBPop,
			help: "wait for a job to be ready, for TIMEOUT at most or, without one, for ever, and take it", note: popNote},
		{name: "remove", arguments: "ID", least: 1, most: 1, run: runRemove,
			help: "remove a job that nobody has taken yet"},
		{name: "get", arguments: "ID", least: 1, most: 1, run: runGet,
			help: "show a job, or a dead letter, and leave it where it is"},
		workerCommand,
		{name: "pause", arguments: "TOPIC", least: 1, most: 1, run: runPause,
			help: "have nothing of a topic delivered to anybody, until it is resumed; all else goes on",
			flags: func(f *flag.FlagSet, o *options) {
				f.Func("for", "", setDuration(&o.pauseFor, maxTime))
				f.Func("note", "", setOnce(&o.note, "a note"))
				boolean(f, &o.replace, "replace")
			},
			options: "--for D -- have it end by itself after D\n" +
				"--note TEXT -- what those see who look: who has paused it, and why\n" +
				"--replace -- if it is paused already, replace its end and note; without it that is refused\n"},
		{name: "resume", arguments: "TOPIC", least: 1, most: 1, run: runResume,
			help: "have a paused topic delivered again, whatever has paused it"},
		{name: "paused", run: runPaused,
			help: "list the topics that are paused: topic, since when, until when, note; a topic that consumers back off from is marked so"},
		{name: "limit", arguments: "TOPIC", least: 1, most: 1, run: runLimit, check: checkLimit,
			help: "show how many jobs of a topic are reserved at a time, and how many begin in a second, at most, of all consumers that reserve, and how much of that is used; or change it",
			flags: func(f *flag.FlagSet, o *options) {
				f.Func("concurrency", "", setNumber(&o.limit.Concurrency, store.MaxConcurrency))
				f.Func("rate", "", setRate(&o.limit.Rate))
				f.Func("burst", "", setNumber(&o.limit.Burst, store.MaxConcurrency))
				f.Func("tag", "", setOnce(&o.limit.Tag, "a tag"))
				boolean(f, &o.noLimit, "none")
			},
			options: "--concurrency N -- so many are reserved at a time\n" +
				"--rate N/s -- so many begin in a second; or /m, /h, /d\n" +
				"--burst N -- so many of these may begin at once; 1 if not given\n" +
				"--tag T -- all IDs of the topic bear {T}: then the limit is that of one partition, and exact\n" +
				"--none -- there is no limit any more\n",
			note: "What is not given is not limited.\n"},
		{name: "dead list", arguments: "TOPIC", least: 1, most: 1, run: runDeadList,
			help: "list the topic's dead letters, the newest first: ID, time, attempts, reason, error"},
		{name: "dead requeue", arguments: "TOPIC [ID]", least: 1, most: 2, run: runDeadRequeue,
			help: "make a dead letter, or all of the topic, the oldest first, ready jobs again, with all their attempts"},
		{name: "dead drop", arguments: "TOPIC [ID]", least: 1, most: 2, run: runDeadDrop,
			help: "delete a dead letter, or all of the topic"},
		{name: "schedule add", arguments: "NAME SPEC TOPIC BODY", least: 4, most: 4, run: runScheduleAdd,
			help: "have a job pushed at each moment of SPEC, or change the schedule of that name, and print its next moment; a BODY of - reads standard input",
			flags: func(f *flag.FlagSet, o *options) {
				f.Func("zone", "", setOnce(&o.zone, "a time zone's name"))
				f.Func("missed", "", setOneOf(&o.missed, client.MissedOnce, client.MissedSkip, client.MissedAll))
				f.Func("overlap", "", setOneOf(&o.overlap, client.OverlapAllow, client.OverlapSkip, client.OverlapFollow))
				f.Func("jitter", "", setDuration(&o.jitter, maxTime))
				f.Func("ttr", "", setDuration(&o.ttr, maxLease))
				f.Func("max-attempts", "", setNumber(&o.maxAttempts, math.MaxInt32))
			},
			options: zoneOption +
				"--missed CHOICE -- what becomes of moments that no server saw in time: once, one job at once, if not given; skip, none; all, the last 100\n" +
				"--overlap CHOICE -- what becomes of a moment while the job before is not done: allow, it has its job, if not given; skip, none; follow, the newest is delivered when that is done\n" +
				"--jitter D -- delay each job by D at most\n" +
				"--ttr D -- the lease of a consumer who reserves a job and names none, up to 24h; 30s if not given\n" +
				"--max-attempts N -- how often a job is tried before it becomes a dead letter\n",
			note: specNote},
		{name: "schedule list", run: runScheduleList,
			help: "list all schedules: name, when they are due, zone, topic, next moment, last moment and what became of it, jobs, moments without a job"},
		{name: "schedule remove", arguments: "NAME", least: 1, most: 1, run: runScheduleRemove,
			help: "delete a schedule; its jobs stay"},
		{name: "schedule pause", arguments: "NAME", least: 1, most: 1, run: runSchedulePause,
			help: "have a schedule's moments pass without jobs, until it is resumed"},
		{name: "schedule resume", arguments: "NAME", least: 1, most: 1, run: runScheduleResume,
			help: "have a schedule go on that was paused"},
		{name: "schedule run", arguments: "NAME", least: 1, most: 1, run: runScheduleRun,
			help: "push a job of a schedule now, and print its ID; its moments stay what they are"},
		{name: "schedule next", arguments: "SPEC", least: 1, most: 1, run: runScheduleNext, local: true,
			help: "print the next ten moments of SPEC, by this machine's clock; no Redis is asked",
			flags: func(f *flag.FlagSet, o *options) {
				f.Func("zone", "", setOnce(&o.zone, "a time zone's name"))
			},
			options: zoneOption, note: specNote},
		{name: "partitions", run: runPartitions,
			help: "count the jobs of each partition, and tell by how much its next one is overdue and which server moves it"},
		{name: "migrate", run: runMigrate,
			help: "move what is left in the partitions of before (partitions_before) to those of now, while all goes on",
			flags: func(f *flag.FlagSet, o *options) {
				boolean(f, &o.noWait, "no-wait")
			},
			options: "--no-wait -- end when only jobs that are reserved are left, instead of waiting for them\n",
			note:    "It can be stopped at any time, and begun again.\n"},
	}
}

// findCommand finds the command that the words begin with; its name has one or two of them.
// c is nil when there is none.
func findCommand(words []string) (c *command, rest []string) {
	for _, c := range commands() {
		name := strings.Fields(c.name)
		if len(words) >= len(name) && slices.Equal(words[:len(name)], name) {
			return &c, words[len(name):]
		}
	}
	return nil, nil
}

// checkArguments checks what the flags can't check by themselves.
func (c *command) checkArguments(o *options) error {
	switch n := len(o.arguments); {
	case n < c.least:
		return fmt.Errorf("too few arguments: want %s", c.arguments)
	case n > c.most:
		return fmt.Errorf("unexpected argument %q: want %s", o.arguments[c.most], c.arguments)
	case c.check != nil:
		return c.check(o)
	}
	return nil
}

// execute runs a command against the configured Redis.
func execute(o options, stdout, stderr *os.File) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(endLater(ctx, sameSignal), stop) // from then on a signal ends the program at once
	c := &call{options: o, stdout: stdout, stderr: stderr}
	if !o.command.local {
		if err := c.open(); err != nil {
			return err
		}
		defer c.client.Close()
	}
	r, err := o.command.run(ctx, c)
	if err == nil && (r.text != "" || r.json != nil) {
		err = c.print(ctx, r)
	}
	return withExitCode(ctx, err)
}

// open gives the call what it needs to ask Redis.
func (c *call) open() error {
	found, err := findConfiguration(c.options)
	if err != nil {
		return err
	}
	printWarnings(c.stderr, found)
	c.redis = found.config.Redis
	if c.pool, err = poolOptions(c.redis); err != nil {
		return fail(exitUsage, err)
	}
	c.client = client.OpenPool(c.pool, client.WithPrefix(c.redis.Prefix), client.WithPartitions(c.redis.Partitions), client.WithPartitionsBefore(c.redis.PartitionsBefore))
	return nil
}
