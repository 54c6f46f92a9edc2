package main

import (
	"context"
	"flag"
	"fmt"
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
	return slices.Concat(jobCommands(), []command{workerCommand}, topicCommands(), deadCommands(), scheduleCommands(), partitionCommands())
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
