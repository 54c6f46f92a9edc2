package api

// partitions answers with the numbers of each partition.
func (a *api) partitions(c *call) (response, error) {
	partitions, err := a.operator.Partitions(c.context())
	list := make([]object, len(partitions))
	for i, p := range partitions {
		o := &list[i]
		o.put("partition", p.Number)
		o.put("waiting", p.Waiting)
		o.put("ready", p.Ready)
		o.put("reserved", p.Reserved)
		o.put("dead", p.Dead)
		o.put("overdue", p.Overdue)
	}
	return ok(object{{"partitions", list}}), err
}
