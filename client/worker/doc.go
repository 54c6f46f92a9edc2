// Package worker runs handlers on the jobs of topics, as an HTTP server runs handlers on requests: it reserves
// each job, calls the handler, and acknowledges the job or schedules a retry.
//
//	mux := worker.NewMux()
//	worker.Handle(mux, "close_order", func(ctx context.Context, o Order) error {
//		return closeIfUnpaid(ctx, o.ID)
//	})
//	err := worker.New(c, mux, worker.Options{}).Run(ctx) // until ctx is done
//
// Producers push such orders with client.Topic.
//
// A job is delivered at least once: again after an error or a crash, and if its lease ends before it was
// acknowledged. So calling a handler twice should do no harm; Job.Token helps where that is hard. A job that
// has failed MaxAttempts times becomes a dead letter.
package worker
