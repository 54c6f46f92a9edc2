package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/duration"
)

// span is how long a time may be at most, and how the help words that.
type span struct {
	most time.Duration
	text string
}

var (
	maxLease = span{client.MaxLease, "24h"}
	maxTime  = span{client.MaxDelay, "100 years"}

	maxReplicasTimeout = span{client.MaxReplicasTimeout, "10s"}
)

// setDuration sets the value of a flag that is a time above 0, and may be given once.
func setDuration(value *time.Duration, limit span) func(string) error {
	return func(given string) error {
		if *value != 0 {
			return fmt.Errorf("%v was given before", *value)
		}
		d, err := duration.Parse(given)
		if err != nil || d <= 0 || d > limit.most {
			return fmt.Errorf("want seconds, or a number with ms, s, m, h or d, above 0 and up to %s", limit.text)
		}
		*value = d
		return nil
	}
}

// setNumber sets the value of a flag that is 1 or more, and may be given once.
func setNumber(value *int, most int) func(string) error {
	return func(given string) error {
		if *value != 0 {
			return fmt.Errorf("%d was given before", *value)
		}
		n, err := strconv.Atoi(given)
		if err != nil || n < 1 || n > most {
			return fmt.Errorf("want a number from 1 to %d", most)
		}
		*value = n
		return nil
	}
}

// setOneOf sets the value of a flag that is one of some words, and may be given once.
func setOneOf[T ~string](value *T, choices ...T) func(string) error {
	return func(given string) error {
		if *value != "" {
			return fmt.Errorf("%q was given before", string(*value))
		}
		if !slices.Contains(choices, T(given)) {
			return fmt.Errorf("want one of %q", choices)
		}
		*value = T(given)
		return nil
	}
}

// addTopics adds the topics of a flag that may be given several times.
func addTopics(topics *[]string) func(string) error {
	return func(given string) error {
		for topic := range strings.SplitSeq(given, ",") {
			switch {
			case topic == "":
				return errors.New("a topic is empty: want TOPIC, or several with commas between them")
			case slices.Contains(*topics, topic):
				return fmt.Errorf("%q was given before", topic)
			}
			*topics = append(*topics, topic)
		}
		return nil
	}
}
