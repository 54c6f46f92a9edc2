package take

// regroup has each source served together with those that its store's connections are shared with now: in a
// cluster that is found out with the first call, and partitions move. A node whose sources do not stay together
// is replaced. What it has under way comes to an end; what was entered there is void.
func (t *Taker) regroup() {
	ids, moved := make([]any, len(t.sources)), false
	for i, s := range t.sources {
		ids[i] = s.store.Node()
		moved = moved || ids[i] != s.node.id
	}
	if !moved {
		return
	}
	var order []any
	groups := map[any][]*source{}
	for i, s := range t.sources {
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

// nodeOf is a node of these sources: the one that they have if all of them have it, and no other source has.
func (t *Taker) nodeOf(id any, sources []*source) *node {
	same := sources[0].node
	for _, s := range sources {
		if s.node != same || same.id != id || len(same.sources) != len(sources) {
			same = nil
			break
		}
	}
	if same != nil {
		return same
	}
	n := newNode(t, sources[0].store)
	n.id, n.sources = id, sources
	for _, s := range sources {
		s.node = n
		for _, l := range s.lines {
			l.entered = false
			l.unhold()
		}
	}
	return n
}

// dissolve ends a node that has lost sources, and has what waited there wait at their new ones.
func (n *node) dissolve() {
	for _, s := range n.sources {
		n.dissolved = n.dissolved || s.node != n
	}
	if !n.dissolved {
		return
	}
	queue, surveys, woken := n.queue, n.surveys, n.woken
	n.queue, n.surveys, n.woken = nil, nil, nil
	for _, a := range queue {
		if a.isDue() {
			a.at().enqueue(a)
		} else {
			a.dequeued()
		}
	}
	for _, s := range surveys {
		s.source.surveys = append(s.source.surveys, s)
	}
	for _, w := range woken {
		w.source.woken = append(w.source.woken, w)
	}
	n.listener.signal()
}

// wakeAll has each node see whether there is something to be sent.
func (t *Taker) wakeAll() {
	for _, n := range t.nodes {
		n.trips.Wake()
	}
}

// listen has the listeners run if anybody waits.
func (t *Taker) listen() {
	for _, c := range t.sources[0].callers() { // who is in a line of each
		if c.Waits {
			for _, n := range t.nodes {
				n.listener.start()
			}
			return
		}
	}
}
