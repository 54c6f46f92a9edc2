// The documentation's calls, made with a client that is generated from the description.
package main

import (
	"context"
	"log"
	"net/http"
	"os"
	"time"
)

func main() {
	ctx := context.Background()
	c := must(NewClientWithResponses(os.Args[1]))
	id, topic, body := "order-1001", "close_order", `{"order":"1001"}`
	job := NewJob{Id: &id, Topic: &topic, Body: &body, Delay: text("30m")}
	pushed := must(c.PushWithResponse(ctx, nil, job))
	expect(pushed, pushed.JSON201 != nil && *pushed.JSON201.Id == id && pushed.JSON201.Outcome == Created)
	key, mail, content := "welcome-42", "mail", "welcome"
	keyed := must(c.PushWithResponse(ctx, &PushParams{IdempotencyKey: &key}, NewJob{Topic: &mail, Body: &content}))
	expect(keyed, keyed.JSON201 != nil && *keyed.JSON201.Id == "key:"+key)
	repeated := must(c.PushWithResponse(ctx, &PushParams{IdempotencyKey: &key}, NewJob{Topic: &mail, Body: &content}))
	expect(repeated, repeated.JSON200 != nil && *repeated.JSON200.Id == "key:"+key && repeated.JSON200.Outcome == Refused)
	forgotten := must(c.RemoveWithResponse(ctx, "key:"+key, nil))
	expect(forgotten, forgotten.JSON200 != nil)
	digest, comment, customer := "digest", `{"comment":7}`, "customer-42"
	for _, outcome := range []Outcome{Created, Added} {
		grouped := must(c.PushWithResponse(ctx, nil, NewJob{Topic: &digest, Body: &comment, Group: &customer, GroupQuiet: text("1m"), GroupLongest: text("15m")}))
		expect(grouped, grouped.JSON201 != nil && grouped.JSON201.Outcome == outcome)
	}
	got := must(c.GetWithResponse(ctx, id))
	expect(got, got.JSON200 != nil && got.JSON200.State == StateWaiting && got.JSON200.Due != nil && *got.JSON200.Ttl >= 1e5)
	rescheduled := must(c.RescheduleWithResponse(ctx, id, Rescheduling{Delay: *text("1h")}))
	expect(rescheduled, rescheduled.StatusCode() == http.StatusNoContent)
	removed := must(c.RemoveWithResponse(ctx, id, nil))
	expect(removed, removed.JSON200 != nil && removed.JSON200.Was == StateWaiting)

	job.Delay = seconds(0)
	batch := must(c.PushBatchWithResponse(ctx, NewJobs{Jobs: []NewJob{job, {Topic: &topic, BodyBase64: &[]byte{0xff}, Headers: &Headers{"tenant": "acme"}}}}))
	expect(batch, batch.JSON200 != nil && batch.JSON200.Complete)
	wait, most, attempts := "30s", 10, 10
	reserved := must(c.ReserveWithResponse(ctx, &ReserveParams{Wait: &wait}, Reservation{Topics: &[]string{topic}, Max: &most, Lease: text("1m"), MaxAttempts: &attempts}))
	expect(reserved, reserved.JSON200 != nil && len(reserved.JSON200.Deliveries) == 2)
	first, second := reserved.JSON200.Deliveries[0], reserved.JSON200.Deliveries[1]
	expect(reserved, *first.Body == body && (*second.BodyBase64)[0] == 0xff && (*second.Headers)["tenant"] == "acme" && first.Headers == nil)
	acked := must(c.AckWithResponse(ctx, *first.Id, LeaseReference{Topic: first.Topic, Token: first.Token}))
	expect(acked, acked.StatusCode() == http.StatusNoContent)
	again := must(c.AckWithResponse(ctx, *first.Id, LeaseReference{Topic: first.Topic, Token: first.Token}))
	expect(again, again.ApplicationproblemJSON410 != nil && again.ApplicationproblemJSON410.Type == UrnDelayerProblemGone)
	several := must(c.AckBatchWithResponse(ctx, LeasedJobs{Deliveries: []LeasedJob{{Id: second.Id, Topic: second.Topic, Token: second.Token}}}))
	expect(several, several.JSON200 != nil && several.JSON200.Count == 1)

	stats := must(c.StatsWithResponse(ctx, nil))
	expect(stats, stats.JSON200 != nil && *stats.JSON200.Ready == 0 && stats.JSON200.Redis != nil)
	contains, limit := "order", 100
	topics := must(c.TopicsWithResponse(ctx, &TopicsParams{Contains: &contains, Limit: &limit}))
	expect(topics, topics.JSON200 != nil && len(topics.JSON200.Topics) == 1)
	browsed := must(c.BrowseWithResponse(ctx, topic, &BrowseParams{State: BrowseParamsStateWaiting}))
	expect(browsed, browsed.JSON200 != nil && len(browsed.JSON200.Jobs) == 0)
	spans := "1m,1h,24h"
	forecast := must(c.ForecastWithResponse(ctx, &ForecastParams{Spans: &spans}))
	expect(forecast, forecast.JSON200 != nil && len(forecast.JSON200.Spans) == 3)
	within := "60"
	load := must(c.LoadWithResponse(ctx, &LoadParams{Topic: topic, Within: &within}))
	expect(load, load.JSON200 != nil && load.JSON200.Load == 0)
	partitions := must(c.PartitionsWithResponse(ctx))
	expect(partitions, partitions.JSON200 != nil && len(partitions.JSON200.Partitions) == 1 && partitions.JSON200.Partitions[0].Partition == 0)
	four, ten := 4, 10.0
	limited := must(c.SetLimitWithResponse(ctx, topic, NewLimit{Concurrency: &four, Rate: &ten}))
	expect(limited, limited.JSON200 != nil && *limited.JSON200.Concurrency == four && *limited.JSON200.SlotsTaken == 0)
	shown := must(c.TopicWithResponse(ctx, topic))
	expect(shown, shown.JSON200 != nil && *shown.JSON200.Limit.Concurrency == four && *shown.JSON200.SlotsTaken == 0)
	unlimited := must(c.RemoveLimitWithResponse(ctx, topic))
	expect(unlimited, unlimited.StatusCode() == http.StatusNoContent)
	note := "ask Eve"
	pause := must(c.PauseWithResponse(ctx, topic, NewPause{For: text("2h"), Note: &note}))
	expect(pause, pause.StatusCode() == http.StatusNoContent)
	throttled := must(c.ThrottleWithResponse(ctx, topic, Throttling{For: *seconds(30)}))
	expect(throttled, throttled.StatusCode() == http.StatusNoContent)
	paused := must(c.PausedWithResponse(ctx))
	expect(paused, paused.JSON200 != nil && len(paused.JSON200.Paused) == 1 && *paused.JSON200.Paused[0].Note == note)
	resumed := must(c.ResumeWithResponse(ctx, topic))
	expect(resumed, resumed.JSON200 != nil && resumed.JSON200.WasPaused)
	zone, of, yesterday, still := "Europe/Berlin", "report", "yesterday", PauseScheduleJSONRequestBody{Paused: true}
	scheduled := must(c.SetScheduleWithResponse(ctx, "report", NewSchedule{Cron: "0 7 * * mon-fri", Zone: &zone, Topic: &of, Body: &yesterday}))
	expect(scheduled, scheduled.JSON200 != nil && scheduled.JSON200.Next.After(time.Now()))
	ran := must(c.RunScheduleWithResponse(ctx, "report"))
	expect(ran, ran.JSON200 != nil && *ran.JSON200.Id != "")
	pausing := must(c.PauseScheduleWithResponse(ctx, "report", still))
	expect(pausing, pausing.StatusCode() == http.StatusNoContent)
	schedules := must(c.SchedulesWithResponse(ctx))
	expect(schedules, schedules.JSON200 != nil && len(schedules.JSON200.Schedules) == 1 && schedules.JSON200.Schedules[0].Paused != nil)
	gone := must(c.RemoveScheduleWithResponse(ctx, "report"))
	expect(gone, gone.StatusCode() == http.StatusNoContent)
	job.Delay = text("2h")
	another := must(c.PushWithResponse(ctx, nil, job))
	expect(another, another.JSON201 != nil)
	dryRun, waiting := RescheduleManyParamsDryRunTrue, RemoveManyParamsStateWaiting
	counted := must(c.RescheduleManyWithResponse(ctx, topic, &RescheduleManyParams{Match: "*", DryRun: &dryRun}, Rescheduling{Delay: *text("1h")}))
	expect(counted, counted.JSON200 != nil && counted.JSON200.Count == 1)
	some := must(c.RemoveManyWithResponse(ctx, topic, &RemoveManyParams{Match: "order-*", State: &waiting, Limit: &limit}))
	expect(some, some.JSON200 != nil && some.JSON200.Count == 1 && some.JSON200.Complete)
	purged := must(c.PurgeWithResponse(ctx, topic, nil))
	expect(purged, purged.JSON200 != nil && purged.JSON200.Complete)
	dead := must(c.DeadWithResponse(ctx, topic, nil))
	expect(dead, dead.JSON200 != nil)
	groups := must(c.DeadGroupsWithResponse(ctx, topic, nil))
	expect(groups, groups.JSON200 != nil)
	why := "shop is closed"
	requeued := must(c.RequeueWithResponse(ctx, topic, nil, Selection{Error: &why}))
	expect(requeued, requeued.JSON200 != nil && requeued.JSON200.Count == 0)
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

// must returns the answer or ends the program.
func must[T any](answer T, err error) T {
	if err != nil {
		log.Panic(err)
	}
	return answer
}

// expect ends the program with an answer that is not as it should be.
func expect(got interface{ GetBody() []byte }, is bool) {
	if !is {
		log.Panicf("%T: %s", got, got.GetBody())
	}
}
