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
				f.Func("ttr", "", setDuration(&o.ttr, maxLease))
				f.Func("max-attempts", "", setNumber(&o.maxAttempts, math.MaxInt32))
				f.Func("replicas", "", setNumber(&o.replicas, client.MaxReplicas))
				f.Func("replicas-timeout", "", setDuration(&o.replicasTimeout, maxReplicasTimeout))
			},
			check: checkPush,
			options: "--id ID -- the job's ID; a random one if not given\n" +
				"--once D -- have pushes of the ID count once within D, whatever becomes of the job; another one with --once fails, and changes nothing\n" +
				"--debounce D -- make one job of all such pushes of the ID, due D after the first of them at the latest\n" +
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
		{name: "dead list", arguments: "TOPIC", least: 1, most: 1, run: runDeadList,
			help: "list the topic's dead letters, the newest first: ID, time, attempts, reason, error"},
		{name: "dead requeue", arguments: "TOPIC [ID]", least: 1, most: 2, run: runDeadRequeue,
			help: "make a dead letter, or all of the topic, the oldest first, ready jobs again, with all their attempts"},
		{name: "dead drop", arguments: "TOPIC [ID]", least: 1, most: 2, run: runDeadDrop,
			help: "delete a dead letter, or all of the topic"},
		{name: "partitions", run: runPartitions,
			help: "count the jobs of each partition, and tell by how much its next one is overdue and which server moves it"},
		{name: "migrate", run: runMigrate,
			help: "move what is left in the partitions of before (partitions_before) to those of now, while all goes on",
			flags: func(f *flag.FlagSet, o *options) {
				f.BoolVar(&o.noWait, "no-wait", false, "")
			},
			options: "--no-wait -- end when only jobs that are reserved are left, instead of waiting for them\n",
			note:    "It can be stopped at any time, and begun again."},
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
	found, err := findConfiguration(o)
	if err != nil {
		return err
	}
	printWarnings(stderr, found)
	pool, err := poolOptions(found.config.Redis)
	if err != nil {
		return fail(exitUsage, err)
	}
	c := &call{
		options: o,
		client:  client.OpenPool(pool, client.WithPrefix(found.config.Redis.Prefix), client.WithPartitions(found.config.Redis.Partitions), client.WithPartitionsBefore(found.config.Redis.PartitionsBefore)),
		pool:    pool, redis: found.config.Redis,
		stdout: stdout, stderr: stderr,
	}
	defer c.client.Close()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(endLater(ctx, sameSignal), stop) // from then on a signal ends the program at once
	r, err := o.command.run(ctx, c)
	if err == nil && (r.text != "" || r.json != nil) {
		err = c.print(ctx, r)
	}
	return withExitCode(ctx, err)
}
