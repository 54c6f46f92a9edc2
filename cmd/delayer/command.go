package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/mix-basic/delayer/client"
)

// command is one of the client's commands.
type command struct {
	name        string
	arguments   string // as the usage shows them
	help        string
	least, most int                           // arguments
	flags       func(*flag.FlagSet, *options) // defines flags of its own; nil: none
	options     string                        // the lines on them in the usage
	run         func(context.Context, *call) (answer, error)
}

// call is one execution of a command.
type call struct {
	client    *client.Client // closed by the caller
	arguments []string       // as many as the table allows
	id        string         // --id; empty: not given
	json      bool           // --json
	stdout    *os.File
}

// commands is the table of all commands, in the order of the usage.
func commands() []command {
	return []command{
		{name: "push", arguments: "TOPIC DELAY BODY [--id ID]", least: 3, most: 3, run: runPush,
			help: "push a job that is due after DELAY, and print its ID; a BODY of - reads standard input",
			flags: func(f *flag.FlagSet, o *options) {
				f.Func("id", "", setOnce(&o.id, "a job's ID"))
			},
			options: "--id ID -- the job's ID; a random one if not given\n"},
		{name: "pop", arguments: "TOPIC", least: 1, most: 1, run: runPop,
			help: "take the topic's first job that is ready"},
		{name: "bpop", arguments: "TOPIC [TIMEOUT]", least: 1, most: 2, run: runBPop,
			help: "wait for a job to be ready, for TIMEOUT at most, and take it"},
		{name: "remove", arguments: "ID", least: 1, most: 1, run: runRemove,
			help: "remove a job that nobody has taken yet"},
		{name: "get", arguments: "ID", least: 1, most: 1, run: runGet,
			help: "show a job and leave it where it is"},
	}
}

// findCommand returns nil when there is no such command.
func findCommand(name string) *command {
	for _, c := range commands() {
		if c.name == name {
			return &c
		}
	}
	return nil
}

func (c *command) checkArguments(arguments []string) error {
	switch n := len(arguments); {
	case n < c.least:
		return fmt.Errorf("too few arguments: want %s", c.arguments)
	case n > c.most:
		return fmt.Errorf("unexpected argument %q: want %s", arguments[c.most], c.arguments)
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
		client:    client.OpenPool(pool, client.WithPrefix(found.config.Redis.Prefix)),
		arguments: o.arguments, id: o.id, json: o.json, stdout: stdout,
	}
	defer c.client.Close()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(endLater(ctx, sameSignal), stop) // from then on a signal ends the program at once
	a, err := o.command.run(ctx, c)
	if err == nil {
		err = c.print(ctx, a)
	}
	return withExitCode(ctx, err)
}
