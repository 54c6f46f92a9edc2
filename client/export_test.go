package client

import "context"

// What the tests know of the inside.
const (
	MaxBlocking = maxBlocking
	RideOut     = rideOut
	MaxFlights  = maxFlights
	CloseWait   = closeWait
)

// Callers is how many callers wait for the topic.
func Callers(c *Client, topic string) int {
	c.waits.mu.Lock()
	defer c.waits.mu.Unlock()
	if w := c.waits.watches[topic]; w != nil {
		return len(w.callers)
	}
	return 0
}

// Pushes is how many push calls are under way to Redis, and how many pushes
// wait for the next.
func (c *Client) Pushes() (flights, gathered int) {
	c.pushes.mu.Lock()
	defer c.pushes.mu.Unlock()
	return c.pushes.flights, len(c.pushes.waiting)
}

// Pops is how many takes of the topic are under way, and how many callers wait
// for the next.
func (c *Client) Pops(topic string) (flights, gathered int) {
	c.takes.mu.Lock()
	defer c.takes.mu.Unlock()
	if q := c.takes.topics[topic]; q != nil {
		return q.flights, len(q.callers)
	}
	return 0, 0
}

// WarmUp opens two connections, as many as flights need.
func (c *Client) WarmUp(ctx context.Context) error {
	one, err := c.ownPool.GetContext(ctx)
	if err != nil {
		return err
	}
	defer one.Close()
	two, err := c.ownPool.GetContext(ctx)
	if err != nil {
		return err
	}
	return two.Close()
}
