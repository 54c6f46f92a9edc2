// Package worker runs a program's handlers on the jobs of its topics, as an HTTP server runs
// handlers on requests: each job is reserved, handled, and acknowledged, or tried again later.
//
//	mux := worker.NewMux()
//	worker.Handle(mux, "close_order", func(ctx context.Context, o Order) error {
//		return closeIfUnpaid(ctx, o.ID)
//	})
//	err := worker.New(c, mux, worker.Options{}).Run(ctx) // until ctx is done
//
// A producer pushes such an order with client.Topic.
//
// A job is delivered at least once: again after an error, after a crash, and if its lease ends before it
// was acknowledged. So a handler should do no harm when it is called twice; Job.Token
// helps where that is hard. A job that has failed MaxAttempts times becomes a dead letter.
package worker
