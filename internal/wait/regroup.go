package wait

// regroup has each partition served together with those that its store's connections are shared with now: in a
// cluster that is found out with the first call, and partitions move. A node whose partitions do not stay together
// is replaced. What it has under way comes to an end; what was entered there is void.
func (t *Dispatcher) regroup() {
	ids, moved := make([]any, len(t.partitions)), false
	for i, s := range t.partitions {
		ids[i] = s.store.Node()
		moved = moved || ids[i] != s.node.id
	}
	if !moved {
		return
	}
	var order []any
	groups := map[any][]*partition{}
	for i, s := range t.partitions {
		if groups[ids[i]] == nil {
			order = append(order, ids[i])
		}
		groups[ids[i]] = append(groups[ids[i]], s)
	}
	old := t.nodes
	t.nodes = nil
	for _, id := range order {
		t.nodes = append(t.nodes, t.nodeOf(id, groups[id]))
	}
	for _, n := range old {
		n.dissolve()
	}
	t.wakeAll()
	t.listen()
}

// nodeOf is a node of these partitions: the one that they have if all of them have it, and no other partition has.
func (t *Dispatcher) nodeOf(id any, partitions []*partition) *node {
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
	n := newNode(t, partitions[0].store)
	n.id, n.partitions = id, partitions
	for _, s := range partitions {
		s.node = n
		for _, l := range s.queues {
			l.entered = false
			l.unthrottle()
		}
	}
	return n
}

// dissolve ends a node that has lost partitions, and has what waited there wait at their new ones.
func (n *node) dissolve() {
	for _, s := range n.partitions {
		n.dissolved = n.dissolved || s.node != n
	}
	if !n.dissolved {
		return
	}
	turns, probes, woken := n.turns, n.probes, n.woken
	n.turns, n.probes, n.woken = nil, nil, nil
	for _, a := range turns {
		if a.isDue() {
			a.at().enqueue(a)
		} else {
			a.dequeued()
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
func (t *Dispatcher) wakeAll() {
	for _, n := range t.nodes {
		n.batches.Wake()
	}
}

// listen has the listeners run if anybody waits.
func (t *Dispatcher) listen() {
	for _, c := range t.partitions[0].callers() { // who is in a queue of each
		if c.Waits {
			for _, n := range t.nodes {
				n.listener.start()
			}
			return
		}
	}
}
