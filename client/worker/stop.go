package worker

import "time"

func (r *run) stop() {
	ended := make(chan struct{})
	go func() {
		r.underWay.Wait()
		close(ended)
	}()
	endWithin := func(limit time.Duration) bool {
		select {
		case <-ended:
			return true
		case <-time.After(limit):
			return false
		}
	}
	if endWithin(r.options.Grace) {
		return
	}
	r.interrupt(errStopping)
	if endWithin(interruptWait) {
		return
	}
	for _, t := range r.unsettled() {
		go t.leave()
	}
	if endWithin(releaseWait) {
		return
	}
	r.stopReporting()
	endWithin(interruptWait)
}

// unsettled returns the tasks whose handlers still run, and claims them: their results don't count any more.
func (r *run) unsettled() (list []*task) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for t := range r.tasks {
		if !t.settling {
			t.settling = true
			list = append(list, t)
		}
	}
	return list
}
