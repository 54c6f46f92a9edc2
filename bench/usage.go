package main

import "time"

// ownServer is a Peer with its own server.
type ownServer interface {
	cpu() (time.Duration, error)
	memory() (float64, error)
}

// serverCPU returns the CPU time of the Peer's server.
func (r *Run) serverCPU(p Peer) (time.Duration, error) {
	if own, ok := p.(ownServer); ok {
		return own.cpu()
	}
	return r.Redis.cpu()
}

// usageColumns are the columns of usage.
var usageColumns = []Column{
	{Name: "Redis, ms of CPU per second", Digits: 2}, {Name: "process, ms of CPU per second", Digits: 2}, {Name: "commands per second", Digits: 1},
}

// usage returns the server's and our CPU time in ms per second while f runs, and for users of our Redis
// its commands per second, including those in scripts.
func (r *Run) usage(p Peer, f func() error) ([]float64, error) {
	commandsBefore, err := r.Redis.info("total_commands_processed")
	if err != nil {
		return nil, err
	}
	before, err := r.serverCPU(p)
	if err != nil {
		return nil, err
	}
	own, started := ownCPU(), time.Now()
	if err := f(); err != nil {
		return nil, err
	}
	took := time.Since(started).Seconds()
	own = ownCPU() - own
	after, err := r.serverCPU(p)
	if err != nil {
		return nil, err
	}
	used := []float64{milliseconds(after-before) / took, milliseconds(own) / took}
	if _, apart := p.(ownServer); apart {
		return used, nil
	}
	commands, err := r.Redis.info("total_commands_processed")
	// Without the commands of this function.
	return append(used, max(commands-commandsBefore-3, 0)/took), err
}
