package client

// What the tests know of the inside.
const (
	MaxBlocking = maxBlocking
	RideOut     = rideOut
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
