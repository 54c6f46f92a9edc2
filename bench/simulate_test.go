package main

import (
	"math"
	"strings"
	"testing"
)

// The shares are those in docs/scaling.md.
func TestBusiestShare(t *testing.T) {
	for _, c := range []struct{ nodes, partitions, most int }{
		{1, 16, 16}, {2, 16, 8}, {3, 16, 6}, {6, 16, 4}, {3, 64, 22}, {6, 64, 14},
	} {
		if got, want := busiestShare(c.nodes, c.partitions), float64(c.most)/float64(c.partitions); got != want {
			t.Errorf("%d partitions on %d nodes: got %v, want %v", c.partitions, c.nodes, got, want)
		}
	}
}

func TestCarry(t *testing.T) {
	c := costs{onNodes: [3]float64{50, 60, 55}, server: 10}
	w := waiters{connections: 5, micros: 2000}
	near := func(what string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > want/1e6 {
			t.Errorf("%s: got %v, want %v", what, got, want)
		}
	}
	// 70 % of a core at 60 µs per job, as on two nodes.
	one := carry(1, 16, c, w, 400)
	near("jobs of one node", one.jobs, 0.7e6/60)
	near("waiting jobs of one node", one.waiting, 40e6)
	near("waiting clients of one node", one.clients, 50)
	near("cores of servers", one.servers, one.jobs*10/1e6)

	// Two nodes have eight partitions each.
	two := carry(2, 16, c, w, 400)
	near("jobs of two nodes", two.jobs, 2*one.jobs)
	near("waiting jobs of two nodes", two.waiting, 2*one.waiting)

	for _, b := range []struct {
		nodes, partitions int
		micros            float64
		next              string
	}{{2, 16, 2000, "cores"}, {6, 16, 2000, "partitions"}, {2, 16, 2, "connections"}} {
		if l := carry(b.nodes, b.partitions, c, waiters{5, b.micros}, 400); !strings.Contains(l.next, b.next) {
			t.Errorf("%d nodes: the next bottleneck is %q, want %q", b.nodes, l.next, b.next)
		}
	}
}

// kept returns a report with the numbers that simulate requires.
func kept() *Report {
	var life []Row
	for i := range 3 {
		for _, w := range ways {
			cells := make([]Sample, rateColumns)
			for c := range cells {
				cells[c] = Sample{50}
			}
			cells[shareColumn] = Sample{100 * busiestShare(i+1, 16)}
			life = append(life, Row{lifeName(clusterPlace(i+1), w), cells})
		}
	}
	return &Report{Sections: []Section{{Tables: []Table{
		{ID: "partitions-nodes", Rows: life},
		{ID: "partitions-waiting", Rows: []Row{{clusterPlace(3).name, []Sample{{16}, {18}}}}},
		{ID: "memory", Rows: []Row{{"Delayer", []Sample{{400}}}}},
	}}}}
}

func TestSimulate(t *testing.T) {
	text, err := simulate(kept())
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| 32 goroutines | 3 | 18.8 | 18.8 | 1.00 |\n",
		"| 2 | 16 | 50 % | 28,000 | 28,000 | 1.4 | 80 | 250,000 | the nodes' cores |\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("there is no %q in\n%s", want, text)
		}
	}
	incomplete := kept()
	incomplete.Sections[0].Tables[0].Rows = nil
	for _, r := range []*Report{{}, incomplete} {
		if _, err := simulate(r); err == nil || !strings.Contains(err.Error(), "-only memory,partitions") {
			t.Errorf("without numbers: got %v", err)
		}
	}
}
