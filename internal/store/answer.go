package store

// Answer will come for a call that was put into a pipeline. The zero Answer is
// that to no call.
type Answer[T any] struct {
	pipeline *Pipeline
	call     *call
	read     func(reply any) (T, error)
}

// Wait waits for the answer. A redis.Error is Redis's no to this call, before it
// changed anything. Any other error is the connection's: what Redis did is unknown.
func (a Answer[T]) Wait() (T, error) {
	var none T
	if a.call == nil {
		return none, nil
	}
	reply, err := a.pipeline.receive(a.call)
	if err != nil {
		return none, err
	}
	return a.read(reply)
}
