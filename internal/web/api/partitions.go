package api

import "github.com/mix-basic/delayer/internal/inspect"

// partitions answers with the counts of each partition.
func (a *api) partitions(c *call) (response, error) {
	partitions, err := a.inspector.Partitions(c.context())
	list := make([]object, len(partitions))
	for i, p := range partitions {
		o := &list[i]
		o.put("partition", p.Number)
		if p.Before {
			o.put("previous", true)
		}
		o.textIfAny("node", p.Node)
		o.put("waiting", p.Waiting)
		o.put("ready", p.Ready)
		o.put("reserved", p.Reserved)
		o.put("dead", p.Dead)
		o.put("overdue", p.Overdue)
		if p.Err != nil {
			o.put("broken", true)
		}
		o.put("mover", moverOf(p))
	}
	return ok(object{{"partitions", list}}), err
}

// moverOf is null if no server reports or the Redis user lacks the permission.
func moverOf(p inspect.Partition) any {
	if p.Mover.ID == "" {
		return nil
	}
	var o object
	o.text("host", p.Mover.Host)
	o.put("pid", p.Mover.PID)
	return o
}
