package main

import "time"

// sizes determine how much a run does.
type sizes struct {
	oursOnly     bool // measure only Delayer
	repeats      int  // for measurements of about a second
	pairRepeats  int  // for the pairs behind the targets
	closeRepeats int  // for measurements of a quarter of a second
	slowRepeats  int  // for measurements of ten seconds or more

	pushJobs    int // pushed by 8 and 32 goroutines; a quarter of it by one
	takeJobs    int // backlog to take; a quarter of it by one
	batchJobs   int // pushed and taken in batches
	burst       int
	bigBurst    int           // 0 for none
	steadyFor   time.Duration // also for many Clients and for crowds
	maxDelay    time.Duration // of the steady load
	steadyPeers bool          // run the steady load on the other contenders
	crowds      []int         // numbers of other waiters during a steady load
	moveJobs    int
	million     int // jobs due at once, for the bystander
	cpuJobs     int
	memoryJobs  int
	settle      time.Duration // until an idle system is idle
	idleFor     time.Duration
	idleJobs    int // for ours
	idlePeers   int // for the others; 0 skips them
	turnsOf     int // turns against the real delay-queue, a fraction of a second each
	turnJobs    int // jobs per turn
	polls       int // waiting polls
	partJobs    int // pushed, moved, taken, reserved and acknowledged; a quarter of it by one goroutine
	topicJobs   int // handled in up to 100 topics; four times as many in 1,000
	schedules   int // schedules whose jobs arrive during a load, 6 ms apart
}

var (
	quickSizes = sizes{
		repeats: 1, pairRepeats: 1, closeRepeats: 1, slowRepeats: 1,
		pushJobs: 2000, takeJobs: 2000, batchJobs: 10000, burst: 2000, steadyFor: time.Second / 2, maxDelay: time.Second,
		crowds: []int{20000}, moveJobs: 10000, million: 50000, cpuJobs: 1000, memoryJobs: 5000,
		settle: time.Second / 2, idleFor: time.Second / 2, idleJobs: 20000,
		turnsOf: 1, turnJobs: 200, polls: 500, partJobs: 500, topicJobs: 1000, schedules: 100,
	}
	// turnSizes are for one of many turns of two revisions.
	turnSizes = sizes{
		oursOnly: true, repeats: 1, pairRepeats: 1, closeRepeats: 1, slowRepeats: 1,
		pushJobs: 10000, takeJobs: 10000, batchJobs: 50000, burst: 20000, steadyFor: 2 * time.Second, maxDelay: time.Second,
		crowds: []int{1000000}, moveJobs: 100000, million: 300000, cpuJobs: 10000, memoryJobs: 20000,
		settle: time.Second, idleFor: 2 * time.Second, idleJobs: 100000,
		turnsOf: 24, turnJobs: 2000, polls: 5000, partJobs: 10000, topicJobs: 8000, schedules: 1000,
	}
	normalSizes = sizes{
		repeats: 3, pairRepeats: 5, closeRepeats: 11, slowRepeats: 2,
		pushJobs: 10000, takeJobs: 10000, batchJobs: 100000, burst: 20000, steadyFor: 4 * time.Second, maxDelay: 5 * time.Second, steadyPeers: true,
		crowds: []int{1000000}, moveJobs: 100000, million: 1000000, cpuJobs: 10000, memoryJobs: 50000,
		settle: time.Second, idleFor: 3 * time.Second, idleJobs: 1000000, idlePeers: 20000,
		turnsOf: 24, turnJobs: 2000, polls: 5000, partJobs: 10000, topicJobs: 8000, schedules: 10000,
	}
	fullSizes = sizes{
		repeats: 5, pairRepeats: 7, closeRepeats: 15, slowRepeats: 3,
		pushJobs: 10000, takeJobs: 10000, batchJobs: 100000, burst: 20000, bigBurst: 1000000, steadyFor: 5 * time.Second, maxDelay: 5 * time.Second, steadyPeers: true,
		crowds: []int{1000000, 10000000}, moveJobs: 100000, million: 1000000, cpuJobs: 20000, memoryJobs: 100000,
		settle: time.Second, idleFor: 5 * time.Second, idleJobs: 1000000, idlePeers: 50000,
		turnsOf: 24, turnJobs: 2000, polls: 5000, partJobs: 10000, topicJobs: 8000, schedules: 10000,
	}
)
