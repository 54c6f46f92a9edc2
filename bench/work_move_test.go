package main

import "testing"

func TestCounterOfMovedJobs(t *testing.T) {
	c := newCounter(6)
	for _, line := range []string{
		"Job is ready, Topic: a, IDs: [1]",
		"Job is ready, Topic: a, IDs: [2,3]",
		"Job is ready, Topic: a, IDs: [4,5,6], Partition: 3",
		"Job is ready, Topic: " + freshTopic + ", IDs: [7]",
		"Server started, Interval: 1s",
	} {
		c.Info(line)
	}
	if c.moved != 6 {
		t.Errorf("got %d jobs, want 6", c.moved)
	}
	select {
	case <-c.done:
	default:
		t.Error("it is not done")
	}
}
