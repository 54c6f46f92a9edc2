package main

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/mix-basic/delayer/internal/store"
)

const simulateAbout = `What N nodes of a Redis Cluster would carry, from measured numbers. Assumptions:

- A job costs on N nodes what it costs on one, plus the largest surplus measured on 2 and 3 nodes; the first table shows how wrong the model without the
  surplus was. Callers of one Client share round trips to a partition, and share less the more nodes there are; beyond 3 nodes they share as on 3.
- Partitions are spread over the nodes by even ranges of slots, jobs evenly over partitions. The busiest node is the limit.
- Each node has a core for Redis, as fast as the one measured, used to 70 %; the rest is for AOF, replicas, the dashboard and peaks.
- A job costs everything that was measured: push, move, take, reserve and ack, though no job is both taken and reserved.
- A waiting job takes the memory that workload "memory" measured for a body of 56 bytes; a node has 16 GB for jobs, besides what Redis needs to fork.
- Clients and servers have machines of their own. A Client with 1,000 callers waiting on 200 topics opens as many connections to each node as measured, and sends
  as many commands in total; each costs what a take by one goroutine costs. A node accepts 10,000 connections (maxclients) and spends 10 % of its core on them.

Left out: the network, AOF and replicas, hot IDs (all jobs with one tag are on one node), large bodies.
`

// The machines of simulateAbout.
const (
	busy        = 0.7
	idleShare   = 0.1
	nodeMemory  = 16e9
	maxClients  = 10000
	coreMicros  = 1e6 // µs of CPU time of a core per second
	clusterSize = 3   // number of nodes on which waiting clients were measured
)

// costs are measurements of one way to push and take.
type costs struct {
	onNodes [3]float64 // µs of Redis's CPU time per job, on 1, 2, 3 nodes
	share   [3]float64 // share of the busiest node, 0 to 1
	server  float64    // µs of a server's CPU time per job
}

// excess returns the factor by which a job costs more on several nodes than on one, at least 1.
func (c costs) excess() float64 { return max(slices.Max(c.onNodes[:])/c.onNodes[0], 1) }

// predicted returns the busiest node's time per job in µs on 1, 2 or 3 nodes, by the model without the
// excess.
func (c costs) predicted(nodes, partitions int) float64 {
	return c.onNodes[0] * busiestShare(nodes, partitions)
}

// measured returns what was measured.
func (c costs) measured(nodes int) float64 { return c.onNodes[nodes-1] * c.share[nodes-1] }

// waiters are the costs of an idle waiting Client.
type waiters struct {
	connections float64 // to each node
	micros      float64 // µs of CPU time per second, all nodes together
}

// capacity is what a number of nodes can serve.
type capacity struct {
	nodes, partitions int
	share             float64 // of the busiest node, 0 to 1
	jobs              float64 // per second
	waiting           float64 // waiting jobs
	clients           float64 // waiting clients
	servers           float64 // cores for the servers
	next              string  // the bottleneck that more nodes do not relieve
}

// carry computes the capacity of that many nodes.
func carry(nodes, partitions int, c costs, w waiters, jobBytes float64) capacity {
	l := capacity{nodes: nodes, partitions: partitions, share: busiestShare(nodes, partitions)}
	l.jobs = busy * coreMicros / (c.onNodes[0] * c.excess() * l.share)
	l.waiting = nodeMemory / jobBytes / l.share
	byConnections, byCommands := maxClients/w.connections, idleShare*coreMicros/w.micros/l.share
	l.clients = min(byConnections, byCommands)
	l.servers = l.jobs * c.server / coreMicros
	switch {
	case l.share > 1.4/float64(nodes):
		l.next = "partitions: too few to fall evenly"
	case byConnections < byCommands:
		l.next = "connections: each Client has some to every node"
	default:
		l.next = "the nodes' cores"
	}
	return l
}

// busiestShare returns the share of jobs, 0 to 1, of the node with most partitions.
func busiestShare(nodes, partitions int) float64 {
	const slots = 16384
	of := make([]int, nodes)
	for i := range partitions {
		slot := store.PartitionOf(fmt.Sprint(i), slots)
		for node := range of {
			if slot < slots*(node+1)/nodes {
				of[node]++
				break
			}
		}
	}
	return float64(slices.Max(of)) / float64(partitions)
}

// simulate computes from stored measurements what N nodes can serve.
func simulate(r *Report) (string, error) {
	cost, err := r.cell("partitions-nodes")
	if err != nil {
		return "", err
	}
	idle, err := r.cell("partitions-waiting")
	if err != nil {
		return "", err
	}
	memory, err := r.cell("memory")
	if err != nil {
		return "", err
	}
	measured := func(w way) (c costs) {
		for i := range c.onNodes {
			row := lifeName(clusterPlace(i+1), w)
			c.onNodes[i], c.share[i] = cost(row, sumColumn), cost(row, shareColumn)/100
		}
		c.server = cost(lifeName(clusterPlace(1), w), serverColumn)
		return c
	}
	waits := clusterPlace(clusterSize).name
	w := waiters{
		connections: idle(waits, 1) / clusterSize,
		micros:      idle(waits, 0) * cost(lifeName(clusterPlace(1), 1), 2),
	}
	jobBytes := memory("Delayer", 0)

	single, many := measured(32), measured(batches)
	var b strings.Builder
	b.WriteString(simulateAbout)
	b.WriteString("\n| busiest node, µs of CPU per job | nodes | model | measured | measured / model |\n|---|--:|--:|--:|--:|\n")
	for _, of := range []struct {
		way way
		costs
	}{{32, single}, {batches, many}} {
		for i := range of.onNodes {
			model, got := of.predicted(i+1, 16), of.measured(i+1)
			fmt.Fprintf(&b, "| %v | %d | %s | %s | %s |\n", of.way, i+1, number(model, 1), number(got, 1), number(got/model, 2))
		}
	}
	b.WriteString("\n| nodes | partitions | on the busiest node | jobs per second, 32 goroutines a Client | jobs per second, batches | their servers' cores | waiting jobs, million | waiting callers | next bottleneck |\n" +
		"|--:|--:|--:|--:|--:|--:|--:|--:|---|\n")
	for _, n := range []struct{ nodes, partitions int }{{1, 16}, {2, 16}, {3, 16}, {6, 16}, {6, 64}, {12, 64}, {12, 256}, {24, 1024}, {48, 1024}} {
		alone, l := carry(n.nodes, n.partitions, single, w, jobBytes), carry(n.nodes, n.partitions, many, w, jobBytes)
		fmt.Fprintf(&b, "| %d | %d | %s %% | %s | %s | %s | %s | %s | %s |\n", l.nodes, l.partitions, number(100*l.share, 0), rounded(alone.jobs), rounded(l.jobs),
			number(l.servers, 1), number(l.waiting/1e6, 0), rounded(1000*l.clients), l.next)
	}
	if text := b.String(); !strings.Contains(text, "NaN") {
		return text, nil
	}
	return "", errors.New("the kept numbers are not complete: go run -C bench . -only memory,partitions")
}

// rounded returns two significant digits.
func rounded(v float64) string {
	if v <= 0 || math.IsNaN(v) || math.IsInf(v, 0) {
		return number(v, 0)
	}
	unit := math.Pow(10, math.Floor(math.Log10(v))-1)
	return number(math.Round(v/unit)*unit, 0)
}

// clusterPlace is a cluster by name only, without nodes.
func clusterPlace(nodes int) place { return place{name: fmt.Sprintf("cluster of %d", nodes)} }

// cell returns a function that looks up medians by row and column of a table.
func (r *Report) cell(table string) (func(row string, column int) float64, error) {
	t, found := r.table(table)
	if !found {
		return nil, fmt.Errorf("there are no numbers of %s: go run -C bench . -only memory,partitions", table)
	}
	return func(name string, column int) float64 {
		i := slices.IndexFunc(t.Rows, func(row Row) bool { return row.Name == name })
		if i < 0 {
			return math.NaN()
		}
		return outcome(t.Rows[i].Cells).column(column).Median()
	}, nil
}

// printSimulation prints simulate for the report in a directory.
func printSimulation(folder string) error {
	report, err := readReport(folder)
	if err != nil {
		return err
	}
	text, err := simulate(report)
	fmt.Print(text)
	return err
}
