package metrics

import (
	"context"
	"slices"
	"strconv"
	"sync"

	"github.com/mix-basic/delayer/internal/inspect"
	"github.com/mix-basic/delayer/internal/store"
	dto "github.com/prometheus/client_model/go"
)

// wholeRedis ends the help of metrics that every HTTP server reports alike.
const wholeRedis = " For the whole Redis, the same from every server: aggregate by max, not sum."

// family is a metric with its series. Metrics read from Redis, and those of topics, are built directly: a
// prometheus.Collector would take several times as long.
type family struct{ *dto.MetricFamily }

func newFamily(kind dto.MetricType, name, help string) family {
	name = "delayer_" + name
	return family{&dto.MetricFamily{Name: &name, Help: &help, Type: &kind}}
}

func gauge(name, help string) family   { return newFamily(dto.MetricType_GAUGE, name, help) }
func counter(name, help string) family { return newFamily(dto.MetricType_COUNTER, name, help) }

// with adds a series. A negative value means unknown and adds none.
func (f family) with(value float64, label ...*dto.LabelPair) family {
	if value < 0 {
		return f
	}
	series := &dto.Metric{Label: label}
	if f.GetType() == dto.MetricType_COUNTER {
		series.Counter = &dto.Counter{Value: &value}
	} else {
		series.Gauge = &dto.Gauge{Value: &value}
	}
	f.Metric = append(f.Metric, series)
	return f
}

func label(name, value string) *dto.LabelPair { return &dto.LabelPair{Name: &name, Value: &value} }

// redisUp is present even if Redis is down.
func redisUp(up float64) family {
	return gauge("redis_up", "1 if the metrics of the whole Redis could be read; if 0, they are missing.").with(up)
}

// numbers are the values read from Redis; an unreadable one is inspect.Unknown.
type numbers struct {
	inspect.Snapshot
	schedules inspect.ScheduleStates // Overdue is negative if unreadable
}

// numbers combines the readings.
func (m *Metrics) numbers(ctx context.Context, reading *inspect.Reading[inspect.Snapshot], schedules *inspect.Reading[inspect.ScheduleStates]) (n numbers, err error) {
	if n.Snapshot, err = reading.Wait(ctx); err != nil {
		return numbers{}, err
	}
	if n.schedules, err = schedules.Wait(ctx); err != nil {
		n.schedules = inspect.ScheduleStates{Active: inspect.Unknown, Paused: inspect.Unknown, Ended: inspect.Unknown, Overdue: inspect.Unknown}
	}
	if n.Acked >= 0 {
		n.Acked = m.acked.follow(n.Acked)
	}
	return n, nil
}

// known is how many there are, if they could be read.
func known[T any](all []T, err error) float64 {
	if err != nil {
		return inspect.Unknown
	}
	return float64(len(all))
}

// steady turns a number that may go back, because Redis lost it, into one that never does: Prometheus would
// take that for a restart and count everything again.
type steady struct {
	mu          sync.Mutex
	last, total int64
}

func (s *steady) follow(n int64) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.total += max(n-s.last, 0)
	s.last = n
	return s.total
}

// families returns the metrics read from Redis.
func (n numbers) families(t *topics) []family {
	t.live(n.Used)
	running := slices.DeleteFunc(slices.Clone(n.Servers), store.ServerState.Stale)
	return slices.Concat([]family{
		gauge("jobs_waiting", "Jobs that are not due yet."+wholeRedis).with(float64(n.Waiting)),
		gauge("oldest_overdue_seconds", "How long the oldest due job (or expired lease) has been waiting for a server to move it; 0 if there is none."+wholeRedis).with(n.Overdue.Seconds()),
		gauge("topics", "Known topics: those with jobs or dead letters now or within about the last hour."+wholeRedis).with(float64(n.Known)),
		gauge("topics_counted", "Topics whose jobs were counted: at most the 10,000 used last. If fewer than delayer_topics, both, and the sums over all topics, are lower bounds."+wholeRedis).with(float64(len(n.Topics))),
		gauge("topics_paused", "Paused topics."+wholeRedis).with(known(n.Pauses, n.PausesErr)),
		gauge("servers", "Running servers."+wholeRedis).with(known(running, n.ServersErr)),
		counter("jobs_acked_total", "Jobs acknowledged by any consumer."+wholeRedis).with(float64(n.Acked)),
		gauge("schedules", "Schedules by state: active, paused, or ended (no further occurrence)."+wholeRedis).
			with(float64(n.schedules.Active), label("state", "active")).with(float64(n.schedules.Paused), label("state", "paused")).with(float64(n.schedules.Ended), label("state", "ended")),
		gauge("schedule_overdue_seconds", "How long the most overdue active schedule has been due without a server firing it; 0 if none is overdue."+wholeRedis).with(n.schedules.Overdue.Seconds()),
		t.ofPauses(n.Pauses),
	}, ofPartitions(n.Partitions), t.gauges(n.Topics))
}

// ofPauses says which of the labelled topics are paused.
func (t *topics) ofPauses(pauses inspect.Pauses) family {
	f := gauge("topic_paused", "1 if the topic is paused; no series otherwise."+wholeRedis)
	for _, p := range pauses {
		if topic := t.of(p.Topic); topic != t.others {
			f.with(1, topic.label...)
		}
	}
	return f
}

// ofPartitions describes each partition, if there are several.
func ofPartitions(counts []inspect.PartitionCounts) []family {
	if len(counts) <= 1 {
		return nil
	}
	each := func(name, help string, value func(inspect.PartitionCounts) float64) family {
		f := gauge("partition_"+name, help+wholeRedis)
		for _, c := range counts {
			f.with(value(c), label("partition", strconv.Itoa(c.Number)))
		}
		return f
	}
	return []family{
		each("up", "1 if the partition could be read, else 0, and totals leave it out.", func(c inspect.PartitionCounts) float64 {
			if c.Err != nil {
				return 0
			}
			return 1
		}),
		each("waiting", "Jobs of the partition that are not due yet.", func(c inspect.PartitionCounts) float64 { return float64(c.Waiting) }),
		each("ready", "Ready jobs of the partition.", func(c inspect.PartitionCounts) float64 { return float64(c.Ready) }),
		each("reserved", "Reserved jobs of the partition, approximately.", func(c inspect.PartitionCounts) float64 { return float64(c.Reserved) }),
		each("dead", "Dead letters of the partition.", func(c inspect.PartitionCounts) float64 { return float64(c.Dead) }),
		each("overdue_seconds", "How long the partition's oldest due job (or expired lease) has been waiting for a server to move it; 0 if there is none.",
			func(c inspect.PartitionCounts) float64 { return c.Overdue.Seconds() }),
	}
}

// gauges returns the metrics of each topic, with Unknown for none.
func (t *topics) gauges(counts []inspect.TopicCounts) []family {
	of := make([]*topic, len(counts))
	for i, c := range counts {
		of[i] = t.of(c.Topic)
	}
	// each adds a series for each labelled topic, and unless join is nil one for the others, combined by it.
	each := func(name, help string, join func(all, one float64) float64, value func(inspect.TopicCounts) float64) family {
		f, rest := gauge(name, help+wholeRedis), float64(inspect.Unknown)
		for i, c := range counts {
			value := value(c)
			switch {
			case of[i] != t.others:
				f.with(value, of[i].label...)
			case value >= 0 && join != nil:
				rest = join(max(rest, 0), value)
			}
		}
		return f.with(rest, t.others.label...)
	}
	// limited is each for topics with a limit.
	limited := func(name, help string, value func(inspect.TopicCounts) float64) family {
		return each("topic_"+name, help, nil, func(c inspect.TopicCounts) float64 {
			if c.Limit == (store.Limit{}) {
				return inspect.Unknown
			}
			return value(c)
		})
	}
	sum := func(all, one float64) float64 { return all + one }
	larger := func(all, one float64) float64 { return max(all, one) }
	return []family{
		each("jobs_ready", "Ready jobs.", sum, func(c inspect.TopicCounts) float64 { return float64(c.Ready) }),
		each("jobs_reserved", "Reserved jobs, approximately.", sum, func(c inspect.TopicCounts) float64 { return float64(c.Reserved) }),
		each("jobs_dead", "Dead letters.", sum, func(c inspect.TopicCounts) float64 { return float64(c.Dead) }),
		each("ready_oldest_overdue_seconds", "How long the topic's next job has been ready, approximately or at least; 0 if none is ready.", larger,
			func(c inspect.TopicCounts) float64 { return c.AtLeast.Seconds() }),
		each("ready_overdue_unknown", "1 if the topic has ready entries but delayer_ready_oldest_overdue_seconds is only a lower bound; no series otherwise.", larger,
			func(c inspect.TopicCounts) float64 {
				if c.Ready > 0 && c.Overdue < 0 {
					return 1
				}
				return inspect.Unknown
			}),
		limited("throttled", "Ready jobs that have to wait because of the topic's limit; topics without a limit have no series.",
			func(c inspect.TopicCounts) float64 { return float64(c.Throttled) }),
		limited("untagged", "Ready jobs that cannot be delivered because they lack the tag of their topic's limit; topics without such a limit have no series.",
			func(c inspect.TopicCounts) float64 {
				if c.Limit.Tag == "" {
					return inspect.Unknown
				}
				return float64(c.Untagged)
			}),
		limited("limit_concurrency", "The limit's maximum number of reserved jobs; 0 for no maximum; topics without a limit have no series.",
			func(c inspect.TopicCounts) float64 { return float64(c.Limit.Concurrency) }),
		limited("limit_rate", "The limit's maximum number of jobs reserved per second; 0 for no maximum; topics without a limit have no series.",
			func(c inspect.TopicCounts) float64 { return c.Limit.Rate }),
	}
}

// dueSoon returns how many jobs of each topic are due soon. There are no series if that can't be read.
func (t *topics) dueSoon(ctx context.Context, counts []inspect.TopicCounts, reading *inspect.Reading[map[string]int]) family {
	f := gauge("jobs_due_soon", "Jobs that are due within a minute, or overdue; estimated if they are more than 1,000. No series unless the scrape asks for them by due_soon=1."+wholeRedis)
	jobs, err := reading.Wait(ctx)
	if err != nil {
		return f
	}
	rest := 0
	for _, c := range counts {
		if topic := t.of(c.Topic); topic != t.others {
			f.with(float64(jobs[c.Topic]), topic.label...)
		} else {
			rest += jobs[c.Topic]
		}
	}
	return f.with(float64(rest), t.others.label...)
}

// counters returns what this process counted for each topic, including zeros: Prometheus sees the first
// increase only if there was a 0 before.
func (t *topics) counters() []family {
	pushed := counter("jobs_pushed_total", "Jobs pushed through the HTTP server."+thisProcess)
	moved := counter("jobs_moved_total", "Jobs that became ready because they were due or their leases expired."+thisProcess)
	returned := counter("leases_returned_total", "Leases that expired, so that their jobs are redelivered."+thisProcess)
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, topic := range t.all() {
		pushed.with(float64(topic.pushed), topic.label...)
		moved.with(float64(topic.moved), topic.label...)
		returned.with(float64(topic.returned), topic.label...)
	}
	return []family{pushed, moved, returned}
}
