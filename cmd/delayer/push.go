package main

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/pushrule"
)

func beginPush(f *flagSet) action {
	var (
		id, group                            string
		once, debounce, ttr, replicasTimeout time.Duration
		inGroup                              client.GroupOptions
		follow                               bool
		maxAttempts, replicas                int
		headers                              map[string]string
	)
	f.text("id", &id)
	f.headers(&headers)
	f.duration("once", &once, maxTime)
	f.duration("debounce", &debounce, maxTime)
	f.toggle("follow", &follow)
	f.text("group", &group)
	f.number("max", &inGroup.Max, math.MaxInt32)
	f.duration("quiet", &inGroup.Quiet, maxTime)
	f.duration("longest", &inGroup.Longest, maxTime)
	f.duration("ttr", &ttr, maxLease)
	f.number("max-attempts", &maxAttempts, math.MaxInt32)
	f.number("replicas", &replicas, client.MaxReplicas)
	f.duration("replicas-timeout", &replicasTimeout, maxReplicasTimeout)
	f.check = func(arguments []string) error {
		if debounce > 0 && len(arguments) > 1 {
			delay, _ := parseDuration("DELAY", arguments[1])
			if why := pushrule.Debounce(debounce, delay); why != "" {
				return fmt.Errorf("--debounce: %s", why)
			}
		}
		return checkPush(f, follow)
	}
	return func(ctx context.Context, c *call) (reply, error) {
		terms := jobTerms(ttr, maxAttempts)
		if replicas > 0 {
			terms = append(terms, client.Replicas(replicas, cmp.Or(replicasTimeout, time.Second)))
		}
		if once > 0 {
			terms = append(terms, client.Once(once))
		}
		if debounce > 0 {
			terms = append(terms, client.Debounce(debounce))
		}
		if follow {
			terms = append(terms, client.Follow)
		}
		if group != "" {
			terms = append(terms, client.Group(group, inGroup))
		}
		return c.push(ctx, client.Message{ID: id, Headers: headers}, terms)
	}
}

// jobTerms returns the push options for a job's own settings; 0 means no setting.
func jobTerms(ttr time.Duration, maxAttempts int) (terms []client.PushOption) {
	if ttr > 0 {
		terms = append(terms, client.TTR(ttr))
	}
	if maxAttempts > 0 {
		terms = append(terms, client.MaxAttempts(maxAttempts))
	}
	return terms
}

// push pushes the message with the arguments' topic, delay and body.
func (c *call) push(ctx context.Context, m client.Message, terms []client.PushOption) (reply, error) {
	if err := notClosed(c.stdout); err != nil { // otherwise the ID would be lost
		return reply{}, outputError(err)
	}
	delay, err := parseDuration("DELAY", c.arguments[1])
	if _, grouped := c.given["group"]; err == nil && grouped && delay > 0 {
		err = fail(exitUsage, fmt.Errorf("DELAY %q: want 0 with --group", c.arguments[1]))
	}
	if err != nil {
		return reply{}, err
	}
	m.Topic = c.arguments[0]
	if m.Body, err = bodyOf(ctx, c.arguments[2]); err != nil {
		return reply{}, err
	}
	pushed, err := c.client.PushOne(ctx, client.Delayed{Message: m, Delay: delay}, terms...)
	if pushed.Outcome == client.Refused { // still a success, as with --once in earlier versions
		c.note(fmt.Sprintf("a push of %q counted before; this one changed nothing.", m.ID))
		pushed.ID, err = m.ID, nil
	}
	return reply{text: pushed.ID, json: object("id", pushed.ID, "outcome", pushed.Outcome)}, err
}

// checkPush finds flags that exclude or require each other.
func checkPush(f *flagSet, follow bool) error {
	has := func(part string) bool {
		name := pushFlag(part)
		_, given := f.given[strings.TrimPrefix(name, "--")]
		return given || follow && name == "--follow"
	}
	if part, why := pushrule.Check(has, pushFlag); part != "" {
		return fmt.Errorf("%s: %s", pushFlag(part), why)
	}
	return nil
}

// pushFlag returns the flag for a part of a push.
func pushFlag(part string) string {
	if part == "if_exists" {
		return "--follow"
	}
	return "--" + strings.ReplaceAll(strings.TrimPrefix(part, "group_"), "_", "-")
}
