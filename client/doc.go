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
// When the job is due, a Delayer server (the daemon, or package server) makes it ready, and a consumer of the topic gets
// it. [Client.Push] is for bodies of your own. Package worker runs handlers:
//
//	err := worker.Run(ctx, c, CloseOrder, closeIfUnpaid) // until ctx is done
//
// Until the job is done, it can be removed, given another delay ([Client.Reschedule]) and read ([Client.Get]):
//
//	was, err := c.Remove(ctx, "close-1001") // the order is paid
//
// [JobOptions] say how a job is delivered and kept, and [IfExists] what a push does if its ID was pushed before. There are
// also groups of pushes ([Group]), limits ([Client.SetLimit]), pauses ([Client.Pause]) and schedules ([Schedules]).
//
// # Delivery
//
// Workers get a job at least once: [Client.Reserve], on which they are built, leases it, and it is delivered again when
// the lease ends, unless the [Delivery] was settled by then. A job whose attempts are used up becomes a dead letter: see
// [Client.Dead]. [Client.Pop] and [Client.BPop] deliver a job at most once: it is lost if the consumer dies.
//
// # Errors
//
// [ErrEmpty] and the errors listed with it are tested for with errors.Is, and so are context.Canceled and
// context.DeadlineExceeded. Other errors are Redis's or the network's, after the operation and the job or topic:
//
//	delayer: push "order-17": OOM command not allowed when used memory > 'maxmemory'.
//
// # Old clients
//
// Jobs are stored as the original Delayer (https://github.com/mix-basic/delayer) stores them, so its PHP and Go clients
// and its server can work on the same Redis, even on the same topic.
package client
