package wait

// regroup has each partition served together with those that its store's connections are shared with now: in a
// cluster that is found out with the first call, and partitions move. A node whose partitions do not stay together
// is replaced. What it has under way comes to an end; what was registered there is void.
func (d *Dispatcher) regroup() {
	ids, moved := make([]any, len(d.partitions)), false
	for i, s := range d.partitions {
		ids[i] = s.store.Node()
		moved = moved || ids[i] != s.node.id
	}
	if !moved {
		return
	}
	var order []any
	groups := map[any][]*partition{}
	for i, s := range d.partitions {
		if groups[ids[i]] == nil {
			order = append(order, ids[i])
		}
		groups[ids[i]] = append(groups[ids[i]], s)
	}
	old := d.nodes
	d.nodes = nil
	for _, id := range order {
		d.nodes = append(d.nodes, d.nodeOf(id, groups[id]))
	}
	for _, n := range old {
		n.dissolve()
	}
	d.wakeAll()
	d.listen()
}

// nodeOf is a node of these partitions: the one that they have if all of them have it, and no other partition has.
func (d *Dispatcher) nodeOf(id any, partitions []*partition) *node {
	same := partitions[0].node
	for _, s := range partitions {
		if s.node != same || same.id != id || len(same.partitions) != len(partitions) {
			same = nil
			break
		}
	}
	if same != nil {
		return same
	}
	n := newNode(d, partitions[0].store)
	n.id, n.partitions = id, partitions
	for _, s := range partitions {
		s.node = n
	}
	n.unheard()
	return n
}

// dissolve ends a node that has lost partitions, and has what waited there wait at their new ones.
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

// wakeAll has each node see whether there is something to be sent.
func (d *Dispatcher) wakeAll() {
	for _, n := range d.nodes {
		n.batches.Wake()
	}
}

// listen has the listeners run if anybody waits.
func (d *Dispatcher) listen() {
	for _, c := range d.partitions[0].callers() { // who is in a queue of each
		if c.Waits {
			for _, n := range d.nodes {
				n.listener.start()
			}
			return
		}
	}
}
