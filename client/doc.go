// Package client pushes jobs that fall due later, and delivers them when they have.
//
//	const CloseOrder client.Topic[Order] = "close_order"
//
//	c, err := client.Open("redis://127.0.0.1:6379")
//	if err != nil {
//		return err
//	}
//	defer c.Close()
//	_, err = CloseOrder.Push(ctx, c, order, 30*time.Minute, client.ID("close-1001"))
//
// When the delay is over, a Delayer server (the daemon, or package server) makes the job ready, and a consumer of
// the topic gets it. [Client.Push] is for bodies of your own. Package worker runs handlers:
//
//	err := worker.Run(ctx, c, CloseOrder, closeIfUnpaid) // until ctx is done
//
// Until the job is done, it can be removed, given another delay ([Client.Reschedule]) and read ([Client.Get]). A
// push of the same ID replaces it, or does what [IfExists] says.
//
//	was, err := c.Remove(ctx, "close-1001") // the order is paid
//
// # Delivery
//
// Workers get a job at least once: [Client.Reserve], on which they are built, leases it, and it is delivered again
// when the lease ends, unless the [Delivery] was settled by then. So a consumer may die, and a job may come twice: if
// its lease ended although the consumer was still at work, or if a reply was lost. A job whose attempts are used up
// becomes a dead letter: see [Client.Dead].
//
// [Client.Pop] and [Client.BPop] deliver a job at most once: it is gone from Redis, and lost if the consumer dies.
//
// # Errors
//
// [ErrEmpty] and the errors that stand with it are tested for with errors.Is, and so are context.Canceled and
// context.DeadlineExceeded. Other errors are Redis's or the network's. The operation and the job or topic come first:
//
//	delayer: push "order-17": OOM command not allowed when used memory > 'maxmemory'.
//
// # Old clients
//
// Jobs are stored in Redis as the original Delayer stores them, so its PHP and Go clients and its server can work
// on the same Redis, even on the same topic.
package client
