// The documentation's calls, made with a client that is generated from the description.
package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
)

func main() {
	if err := calls(context.Background(), os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func calls(ctx context.Context, url string) error {
	c, err := NewClientWithResponses(url)
	if err != nil {
		return err
	}
	id, topic, body := "order-1001", "close_order", `{"order":"1001"}`
	job := NewJob{Id: &id, Topic: &topic, Body: &body, Delay: text("30m")}
	pushed, err := c.PushWithResponse(ctx, job)
	if err != nil || pushed.JSON201 == nil || *pushed.JSON201.Id != id {
		return failed("push", pushed, err)
	}
	got, err := c.GetWithResponse(ctx, id)
	if err != nil || got.JSON200 == nil || got.JSON200.State != StateWaiting || got.JSON200.Due == nil || *got.JSON200.Ttl < 1e5 {
		return failed("get", got, err)
	}
	rescheduled, err := c.RescheduleWithResponse(ctx, id, Rescheduling{Delay: *text("1h")})
	if err != nil || rescheduled.StatusCode() != http.StatusNoContent {
		return failed("reschedule", rescheduled, err)
	}
	removed, err := c.RemoveWithResponse(ctx, id)
	if err != nil || removed.StatusCode() != http.StatusNoContent {
		return failed("remove", removed, err)
	}

	job.Delay = seconds(0)
	batch, err := c.PushBatchWithResponse(ctx, NewJobs{Jobs: []NewJob{job, {Topic: &topic, BodyBase64: &[]byte{0xff}}}})
	if err != nil || batch.JSON200 == nil || !batch.JSON200.Complete {
		return failed("push a batch", batch, err)
	}
	wait, most, attempts := "30s", 10, 10
	reserved, err := c.ReserveWithResponse(ctx, &ReserveParams{Wait: &wait}, Reservation{Topics: &[]string{topic}, Max: &most, Lease: text("1m"), MaxAttempts: &attempts})
	if err != nil || reserved.JSON200 == nil || len(reserved.JSON200.Deliveries) != 2 {
		return failed("reserve", reserved, err)
	}
	first, second := reserved.JSON200.Deliveries[0], reserved.JSON200.Deliveries[1]
	if *first.Body != body || (*second.BodyBase64)[0] != 0xff {
		return failed("reserve", reserved, nil)
	}
	acked, err := c.AckWithResponse(ctx, *first.Id, Held{Topic: first.Topic, Token: first.Token})
	if err != nil || acked.StatusCode() != http.StatusNoContent {
		return failed("ack", acked, err)
	}
	again, err := c.AckWithResponse(ctx, *first.Id, Held{Topic: first.Topic, Token: first.Token})
	if err != nil || again.ApplicationproblemJSON410 == nil || again.ApplicationproblemJSON410.Type != UrnDelayerProblemGone {
		return failed("ack again", again, err)
	}
	several, err := c.AckBatchWithResponse(ctx, HeldJobs{Deliveries: []HeldJob{{Id: second.Id, Topic: second.Topic, Token: second.Token}}})
	if err != nil || several.JSON200 == nil || several.JSON200.Count != 1 {
		return failed("ack several", several, err)
	}

	stats, err := c.StatsWithResponse(ctx)
	if err != nil || stats.JSON200 == nil || *stats.JSON200.Ready != 0 || stats.JSON200.Redis == nil {
		return failed("stats", stats, err)
	}
	contains, limit := "order", 100
	topics, err := c.TopicsWithResponse(ctx, &TopicsParams{Contains: &contains, Limit: &limit})
	if err != nil || topics.JSON200 == nil || len(topics.JSON200.Topics) != 1 {
		return failed("topics", topics, err)
	}
	browsed, err := c.BrowseWithResponse(ctx, topic, &BrowseParams{State: BrowseParamsStateWaiting})
	if err != nil || browsed.JSON200 == nil || len(browsed.JSON200.Jobs) != 0 {
		return failed("browse", browsed, err)
	}
	spans := "1m,1h,24h"
	forecast, err := c.ForecastWithResponse(ctx, &ForecastParams{Spans: &spans})
	if err != nil || forecast.JSON200 == nil || len(forecast.JSON200.Spans) != 3 {
		return failed("forecast", forecast, err)
	}
	purged, err := c.PurgeWithResponse(ctx, topic, nil)
	if err != nil || purged.JSON200 == nil || !purged.JSON200.Complete {
		return failed("purge", purged, err)
	}
	dead, err := c.DeadWithResponse(ctx, topic, nil)
	if err != nil || dead.JSON200 == nil {
		return failed("dead letters", dead, err)
	}
	groups, err := c.DeadGroupsWithResponse(ctx, topic, nil)
	if err != nil || groups.JSON200 == nil {
		return failed("groups", groups, err)
	}
	why := "shop is closed"
	requeued, err := c.RequeueWithResponse(ctx, topic, nil, Selection{Error: &why})
	if err != nil || requeued.JSON200 == nil || requeued.JSON200.Count != 0 {
		return failed("requeue", requeued, err)
	}
	return nil
}

func text(t string) *Duration {
	d := new(Duration)
	d.FromDurationText(t)
	return d
}

func seconds(s float64) *Duration {
	d := new(Duration)
	d.FromDurationSeconds(s)
	return d
}

func failed(what string, got interface{ GetBody() []byte }, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return fmt.Errorf("%s: %s", what, got.GetBody())
}
