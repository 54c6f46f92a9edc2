package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/mix-basic/delayer/client"
)

// runLimit sets or ends a topic's limit if it is told to, and shows it.
func runLimit(ctx context.Context, c *call) (reply, error) {
	topic, limit := c.arguments[0], c.limit
	var err error
	switch {
	case c.noLimit || limit != (client.Limit{}):
		err = c.client.SetLimit(ctx, topic, limit)
	default:
		limit, err = c.client.Limit(ctx, topic)
	}
	v := map[string]any{}
	put(v, "topic", topic)
	if limit.Concurrency > 0 {
		v["concurrency"] = limit.Concurrency
	}
	if limit.Rate > 0 {
		v["rate"], v["burst"] = limit.Rate, max(limit.Burst, 1)
	}
	putIfAny(v, "tag", limit.Tag)
	return reply{text: printable(topic, "") + ": " + limitText(limit), json: v, safe: true}, err
}

// checkLimit refuses a limit that is set and ended by one command.
func checkLimit(o *options) error {
	if o.noLimit && o.limit != (client.Limit{}) {
		return errors.New("--none does not go with a limit")
	}
	return nil
}

func limitText(l client.Limit) string {
	var parts []string
	if l.Concurrency > 0 {
		parts = append(parts, fmt.Sprintf("concurrency %d", l.Concurrency))
	}
	if l.Rate > 0 {
		parts = append(parts, fmt.Sprintf("rate %s/s, burst %d", strconv.FormatFloat(l.Rate, 'g', -1, 64), max(l.Burst, 1)))
	}
	if l.Tag != "" {
		parts = append(parts, "tag "+printable(l.Tag, ""))
	}
	if parts == nil {
		return "no limit"
	}
	return strings.Join(parts, ", ")
}

// setRate reads how many a second, minute, hour or day: 10/s, 0.5/m.
func setRate(rate *float64) func(string) error {
	return func(text string) error {
		number, per, _ := strings.Cut(text, "/")
		n, err := strconv.ParseFloat(number, 64)
		seconds := map[string]float64{"s": 1, "m": 60, "h": 3600, "d": 86400}[per]
		if err != nil || !(n > 0) || seconds == 0 {
			return errors.New("want a number a second, minute, hour or day, such as 10/s or 600/h")
		}
		*rate = n / seconds
		return nil
	}
}
