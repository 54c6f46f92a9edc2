package main

import "time"

// sizes are how much a run does of each.
type sizes struct {
	oursOnly     bool // only Delayer is measured
	repeats      int  // of what takes a second or so
	pairRepeats  int  // of the pairs behind the targets
	closeRepeats int  // of what takes a quarter of a second
	slowRepeats  int  // of what takes ten seconds or more

	pushJobs    int // pushed by 8 and 32 goroutines; a quarter by one
	takeJobs    int // the backlog that is taken; a quarter by one
	batchJobs   int // pushed and taken in batches
	burst       int
	bigBurst    int           // 0: none
	steadyFor   time.Duration // and as long as that for many Clients and in a crowd
	maxDelay    time.Duration // of the steady load
	slowPeers   bool          // whether those run that take long
	steadyPeers bool          // whether the others run the steady load
	crowds      []int         // how many others wait during a steady load
	moveJobs    int
	million     int // due at once, for the bystander
	cpuJobs     int
	memoryJobs  int
	settle      time.Duration // until what idles does so
	idleFor     time.Duration
	idleJobs    int // ours
	idlePeers   int // the others; 0: these are left out
	growth      []int
	growthDue   int
	httpJobs    int           // pushed, popped and finished by HTTP
	turnsOf     int           // a fraction of a second each, beside the real delay-queue
	turnJobs    int           // of these
	polls       int           // that wait
	partJobs    int           // pushed, moved, taken, reserved and acknowledged; a quarter by one goroutine
	topicJobs   int           // of up to 100 topics, handled; four times as many of 1,000
	schedules   int           // whose jobs come beside others, 6 ms apart
	thinned     time.Duration // until a pool has closed what it opened for a crowd
}

var (
	quickSizes = sizes{
		repeats: 1, pairRepeats: 1, closeRepeats: 1, slowRepeats: 1,
		pushJobs: 2000, takeJobs: 2000, batchJobs: 10000, burst: 2000, steadyFor: time.Second / 2, maxDelay: time.Second,
		crowds: []int{20000}, moveJobs: 10000, million: 50000, cpuJobs: 1000, memoryJobs: 5000,
		settle: time.Second / 2, idleFor: time.Second / 2, idleJobs: 20000,
		growth: []int{1000, 10000}, growthDue: 5000, httpJobs: 2000, turnsOf: 1, turnJobs: 200, polls: 500, partJobs: 500, topicJobs: 1000, schedules: 100, thinned: time.Second / 4,
	}
	// turnSizes are for one of many turns of two revisions.
	turnSizes = sizes{
		oursOnly: true, repeats: 1, pairRepeats: 1, closeRepeats: 1, slowRepeats: 1,
		pushJobs: 10000, takeJobs: 10000, batchJobs: 50000, burst: 20000, steadyFor: 2 * time.Second, maxDelay: time.Second,
		crowds: []int{1000000}, moveJobs: 100000, million: 300000, cpuJobs: 10000, memoryJobs: 20000,
		settle: time.Second, idleFor: 2 * time.Second, idleJobs: 100000,
		growth: []int{10000, 100000, 1000000}, growthDue: 20000, httpJobs: 40000, turnsOf: 24, turnJobs: 2000, polls: 5000, partJobs: 10000, topicJobs: 8000, schedules: 1000, thinned: time.Second,
	}
	normalSizes = sizes{
		repeats: 3, pairRepeats: 5, closeRepeats: 11, slowRepeats: 2,
		pushJobs: 10000, takeJobs: 10000, batchJobs: 100000, burst: 20000, steadyFor: 4 * time.Second, maxDelay: 5 * time.Second, slowPeers: true, steadyPeers: true,
		crowds: []int{1000000}, moveJobs: 100000, million: 1000000, cpuJobs: 10000, memoryJobs: 50000,
		settle: time.Second, idleFor: 3 * time.Second, idleJobs: 1000000, idlePeers: 20000,
		growth: []int{10000, 100000, 1000000}, growthDue: 20000, httpJobs: 40000, turnsOf: 24, turnJobs: 2000, polls: 5000, partJobs: 10000, topicJobs: 8000, schedules: 10000, thinned: 22 * time.Second,
	}
	fullSizes = sizes{
		repeats: 5, pairRepeats: 7, closeRepeats: 15, slowRepeats: 3,
		pushJobs: 10000, takeJobs: 10000, batchJobs: 100000, burst: 20000, bigBurst: 1000000, steadyFor: 5 * time.Second, maxDelay: 5 * time.Second, slowPeers: true, steadyPeers: true,
		crowds: []int{1000000, 10000000}, moveJobs: 100000, million: 1000000, cpuJobs: 20000, memoryJobs: 100000,
		settle: time.Second, idleFor: 5 * time.Second, idleJobs: 1000000, idlePeers: 50000,
		growth: []int{10000, 100000, 1000000, 5000000}, growthDue: 20000, httpJobs: 40000, turnsOf: 24, turnJobs: 2000, polls: 5000, partJobs: 10000, topicJobs: 8000, schedules: 10000, thinned: 22 * time.Second,
	}
)
