package wait

import "github.com/mix-basic/delayer/internal/store"

// regroup groups the partitions by their current nodes, if these may have changed: in a cluster the first call finds the nodes,
// and partitions move. A node whose partitions do not stay together is replaced. Its calls in flight still
// end; its registrations are void.
func (d *Dispatcher) regroup() {
	routes := d.partitions[0].store.Routes()
	if routes == d.routes {
		return
	}
	d.routes = routes
	old := d.nodes
	d.nodes = nil
	for _, here := range store.ByNode(d.partitions, (*partition).itsStore) {
		d.nodes = append(d.nodes, d.nodeOf(here))
	}
	for _, n := range old {
		n.dissolve()
	}
	d.wakeAll()
	d.listen()
}

// nodeOf returns the node of these partitions: their present node if it has exactly these, else a new one.
func (d *Dispatcher) nodeOf(partitions []*partition) *node {
	same := partitions[0].node
	for _, s := range partitions {
		if s.node != same || same.id != s.store.Node() || len(same.partitions) != len(partitions) {
			n := newNode(d, partitions)
			n.unheard()
			return n
		}
	}
	return same
}

// dissolve ends a node that has lost partitions, and moves what waited there to their new nodes.
func (n *node) dissolve() {
	for _, s := range n.partitions {
		n.isDissolved = n.isDissolved || s.node != n
	}
	if !n.isDissolved {
		return
	}
	turns, probes, woken := n.turns, n.probes, n.woken
	n.turns, n.probes, n.woken = nil, nil, nil
	for _, a := range turns {
		if a.isDue() {
			to := a.at().node
			to.turns = append(to.turns, a)
		} else {
			a.skipped()
		}
	}
	for _, s := range probes {
		s.partition.probes = append(s.partition.probes, s)
	}
	for _, w := range woken {
		w.partition.woken = append(w.partition.woken, w)
	}
	n.listener.signal()
}

// wakeAll makes each node check whether it has something to send.
func (d *Dispatcher) wakeAll() {
	for _, n := range d.nodes {
		n.batches.Wake()
	}
}

// listen starts the listeners if callers wait.
func (d *Dispatcher) listen() {
	for _, c := range d.partitions[0].callers() { // a caller is in a queue of each partition
		if c.Waits {
			for _, n := range d.nodes {
				n.listener.start()
			}
			return
		}
	}
}
