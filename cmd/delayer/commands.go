package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/duration"
	"github.com/mix-basic/delayer/internal/pushrule"
)

// jobCommands are about single jobs.
func jobCommands() []command {
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
	}
}

func runPush(ctx context.Context, c *call) (reply, error) {
	if err := notClosed(c.stdout); err != nil { // the ID would be lost
		return reply{}, outputError(err)
	}
	topic, body := c.arguments[0], c.arguments[2]
	delay, err := parseDuration("DELAY", c.arguments[1])
	if err != nil {
		return reply{}, err
	}
	if body == "-" {
		if body, err = readInput(ctx); err != nil {
			return reply{}, err
		}
	}
	var terms []client.PushOption
	if c.ttr > 0 {
		terms = append(terms, client.TTR(c.ttr))
	}
	if c.maxAttempts > 0 {
		terms = append(terms, client.MaxAttempts(c.maxAttempts))
	}
	if c.replicas > 0 {
		terms = append(terms, client.Replicas(c.replicas, cmp.Or(c.replicasTimeout, time.Second)))
	}
	if c.once > 0 {
		terms = append(terms, client.Once(c.once))
	}
	if c.debounce > 0 {
		terms = append(terms, client.Debounce(c.debounce))
	}
	if c.follow {
		terms = append(terms, client.Follow)
	}
	if c.group != "" {
		terms = append(terms, client.Group(c.group, client.GroupOptions{Max: c.max, Quiet: c.quiet, Longest: c.longest}))
	}
	job := client.Delayed{Message: client.Message{ID: c.id, Topic: topic, Body: body}, Delay: delay}
	pushed, err := c.client.PushOne(ctx, job, terms...)
	if c.once > 0 && pushed.Outcome == client.Refused {
		briefly(func() {
			fmt.Fprintf(c.stderr, "Note: a push of %q counted before; this one changed nothing.\n", c.id)
		})
		pushed.ID, err = c.id, nil
	}
	v := idJSON(pushed.ID)
	v["outcome"] = pushed.Outcome
	return reply{text: pushed.ID, json: v}, err
}

// checkPush finds flags of push that do not go together, or not without another.
func checkPush(o *options) error {
	given := map[string]bool{
		"id": o.id != "", "if_exists": o.follow, "follow": o.follow, "once": o.once != 0, "debounce": o.debounce != 0,
		"group": o.group != "", "group_max": o.max != 0, "group_quiet": o.quiet != 0, "group_longest": o.longest != 0,
		"replicas": o.replicas != 0, "replicas_timeout": o.replicasTimeout != 0,
	}
	if part, why := pushrule.Check(func(part string) bool { return given[part] }, pushFlag); part != "" {
		return fmt.Errorf("%s: %s", pushFlag(part), why)
	}
	return nil
}

// pushFlag is the flag of a part of a push.
func pushFlag(part string) string {
	if part == "if_exists" {
		return "--follow"
	}
	return "--" + strings.ReplaceAll(strings.TrimPrefix(part, "group_"), "_", "-")
}

// readInput reads a body from the standard input.
func readInput(ctx context.Context) (body string, err error) {
	var data []byte
	err = await(ctx, func() (err error) {
		data, err = io.ReadAll(os.Stdin)
		return err
	})
	if err != nil && ctx.Err() == nil {
		err = fail(exitUsage, fmt.Errorf("BODY from standard input: %w", err))
	}
	return string(data), err
}

func runRemove(ctx context.Context, c *call) (reply, error) {
	id := c.arguments[0]
	removed, err := c.client.Remove(ctx, id)
	if err == nil && !removed {
		err = fmt.Errorf("remove %q: %w", id, client.ErrNotFound)
	}
	v := idJSON(id)
	v["removed"] = true
	return reply{text: "removed " + printable(id, ""), json: v}, err
}

func runGet(ctx context.Context, c *call) (reply, error) {
	job, err := c.client.Get(ctx, c.arguments[0])
	if err != nil {
		return reply{}, err
	}
	var keeps obstacle
	if job.State == client.Ready || job.State == client.Waiting {
		keeps = c.obstacle(ctx, job.Topic)
	}
	v := jobJSON(job)
	keeps.put(v)
	return reply{text: jobText(job, keeps), json: v, safe: true}, nil
}

// parseDuration reads a DELAY or a TIMEOUT.
func parseDuration(name, text string) (time.Duration, error) {
	d, err := duration.Parse(text)
	if err != nil || d < 0 || d > client.MaxDelay {
		return 0, fail(exitUsage, fmt.Errorf("%s %q: want seconds, or a number with ms, s, m, h or d, from 0 to 100 years", name, text))
	}
	return d, nil
}
