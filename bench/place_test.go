package main

import (
	"os/exec"
	"testing"
)

func TestClusterSharesTheSlots(t *testing.T) {
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Skip(err)
	}
	p := startCluster(2, 16)
	defer p.stop()

	values := (&Run{sizes: sizes{partJobs: 500}}).lifeOnce(t.Context(), p, batches)
	if want := 2*len(lifeStages) + 3; len(values) != want {
		t.Errorf("got %d numbers, want %d", len(values), want)
	}
	if share := values[shareColumn]; share < 50 || share >= 100 {
		t.Errorf("the busiest of two nodes bears %v %%", share)
	}
}
