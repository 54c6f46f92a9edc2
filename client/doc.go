// Package client pushes jobs that fall due later, and delivers them when they have.
//
// A producer pushes a [Message] with a delay. When that is over, a Delayer
// server (the daemon, or package server) puts the job into its topic's ready
// queue, and a consumer reserves or pops it.
//
//	c, err := client.Open("redis://127.0.0.1:6379")
//	if err != nil {
//		return err
//	}
//	defer c.Close()
//	id, err := c.Push(ctx, client.Message{Topic: "close_order", Body: order}, 30*time.Minute)
//
// One [Client] serves a whole application. Until the job is done it can be
// removed ([Client.Remove]), given another delay ([Client.Reschedule]) and
// looked at ([Client.Get]). An ID of one's own in the Message makes a push
// repeatable: a second push replaces the job, or does what [IfExists] says.
//
// # At least once
//
// Package worker runs handlers on jobs; it is built on this: [Client.Reserve] waits for a
// job and leases it. The job stays in Redis, and is delivered again when the lease
// ends, unless the [Delivery] was settled before: Ack, Retry, Release, Bury. So a consumer
// may die with a job in hand.
//
//	d, err := c.Reserve(ctx, 0, time.Minute, "close_order")
//	if err != nil {
//		return err
//	}
//	if err := handle(d.Body); err != nil {
//		return d.Retry(ctx, 10*time.Second, client.Cause(err))
//	}
//	return d.Ack(ctx)
//
// A job may come twice: when its lease ended although the consumer was at work, or when the
// answer to a call was lost. Whoever has lost the lease can change nothing ([ErrLeaseLost]).
// A job whose attempts are used up ([MaxAttempts]) is kept aside as a dead letter:
// [Client.Dead], [Client.Requeue].
//
// # At most once
//
//	for {
//		m, err := c.BPop(ctx, 0, "close_order") // waits for a job
//		switch {
//		case err == nil:
//			handle(m)
//		case ctx.Err() != nil:
//			return
//		default: // Redis has been away for some seconds, or refuses
//			log.Print(err)
//			time.Sleep(time.Second)
//		}
//	}
//
// A popped job is gone from Redis: it is delivered at most once, and whoever
// pops takes it over. A consumer that dies with a job in hand loses that job.
// Ending a call does not: nothing is taken while [Client.BPop] waits, and a call
// that is cancelled while Redis is asked for it waits for the answer and returns the
// job that it brings. Only a connection that breaks at that moment may cost jobs:
// [ErrLost], and [Counters].
//
// # Errors
//
// [ErrEmpty], [ErrExists], [ErrReused], [ErrNotFound], [ErrLeaseLost], [ErrExhausted], [ErrInvalid],
// [ErrLost] and [ErrClosed] are to be tested for with errors.Is; so are context.Canceled and
// context.DeadlineExceeded. Other errors are Redis's or the network's. The
// operation and the job or topic are always in front:
//
//	delayer: push "order-17": OOM command not allowed when used memory > 'maxmemory'.
//
// # Old clients
//
// Jobs lie in Redis as the original Delayer has them, so that its PHP and Go
// clients and its server may work on the same Redis, even on the same topic.
package client
