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
// One [Client] serves a whole application. Until the job is done, it can be
// removed ([Client.Remove]), given another delay ([Client.Reschedule]) and
// read ([Client.Get]). With an ID of your own in the Message, a push can be
// repeated: it replaces the job, or does what options such as [Refuse] say.
//
// # At least once
//
// Package worker runs handlers for jobs. It is built on [Client.Reserve], which waits for a
// job and leases it. The job stays in Redis and is delivered again when the lease
// ends, unless the [Delivery] was settled by then with Ack, Retry, Release or Bury. So a
// consumer can die while it handles a job.
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
// A job may be delivered twice: if its lease ended although the consumer was still at work, or if
// the reply to a call was lost. A consumer that has lost the lease can change nothing
// ([ErrLeaseLost]). A job whose attempts are used up ([MaxAttempts]) becomes a dead letter:
// see [Client.Dead] and [Client.Requeue].
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
// A popped job is gone from Redis, so it is delivered at most once. A consumer
// that dies while it handles a job loses that job. Cancelling a call loses nothing:
// while [Client.BPop] waits it takes nothing, and a call that is cancelled while a
// poll is in flight waits for the reply and returns the job in it. Only a connection
// that breaks at that moment can lose jobs: see [ErrLost] and [Counters].
//
// # Errors
//
// [ErrEmpty], [ErrExists], [ErrReused], [ErrOtherTopic], [ErrReserved], [ErrNotFound], [ErrLeaseLost], [ErrExhausted],
// [ErrInvalid], [ErrLost] and [ErrClosed] are tested for with errors.Is, and so are context.Canceled and
// context.DeadlineExceeded. Other errors are Redis's or the network's. The
// operation and the job or topic always come first:
//
//	delayer: push "order-17": OOM command not allowed when used memory > 'maxmemory'.
//
// # Old clients
//
// Jobs are stored in Redis as the original Delayer stores them, so its PHP and Go
// clients and its server can work on the same Redis, even on the same topic.
package client
