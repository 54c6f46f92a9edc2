package main

import "time"

// sizes are how much a run does of each.
type sizes struct {
	repeats     int // of what takes a second or so
	pairRepeats int // of the pairs behind the targets
	slowRepeats int // of what takes ten seconds or more

	pushJobs   int // pushed by 8 and 32 goroutines and in batches; a quarter by one
	takeJobs   int // the backlog that is taken
	burst      int
	bigBurst   int // 0: none
	bigPeers   bool
	steadyFor  time.Duration
	maxDelay   time.Duration // of the steady load
	slowPeers  bool          // whether those run that take long
	fastPeers  bool          // whether peers run the steady 5,000 a second too
	moveJobs   int
	million    int // due at once, for the bystander
	cpuJobs    int
	memoryJobs int
	idleFor    time.Duration
	idleJobs   int // ours
	idlePeers  int // the others; 0: these are left out
	growth     []int
	growthDue  int
}

var (
	quickSizes = sizes{
		repeats: 1, pairRepeats: 1, slowRepeats: 1,
		pushJobs: 2000, takeJobs: 2000, burst: 2000, steadyFor: time.Second / 2, maxDelay: time.Second,
		moveJobs: 10000, million: 50000, cpuJobs: 1000, memoryJobs: 5000,
		idleFor: 500 * time.Millisecond, idleJobs: 20000,
		growth: []int{1000, 10000}, growthDue: 5000,
	}
	normalSizes = sizes{
		repeats: 3, pairRepeats: 5, slowRepeats: 2,
		pushJobs: 20000, takeJobs: 20000, burst: 20000, steadyFor: 4 * time.Second, maxDelay: 5 * time.Second, slowPeers: true, fastPeers: true,
		moveJobs: 100000, million: 1000000, cpuJobs: 10000, memoryJobs: 50000,
		idleFor: 3 * time.Second, idleJobs: 1000000, idlePeers: 20000,
		growth: []int{10000, 100000, 1000000}, growthDue: 20000,
	}
	fullSizes = sizes{
		repeats: 5, pairRepeats: 7, slowRepeats: 3,
		pushJobs: 20000, takeJobs: 20000, burst: 20000, bigBurst: 1000000, bigPeers: true, steadyFor: 5 * time.Second, maxDelay: 5 * time.Second, slowPeers: true, fastPeers: true,
		moveJobs: 100000, million: 1000000, cpuJobs: 20000, memoryJobs: 100000,
		idleFor: 5 * time.Second, idleJobs: 1000000, idlePeers: 50000,
		growth: []int{10000, 100000, 1000000, 5000000}, growthDue: 20000,
	}
)
