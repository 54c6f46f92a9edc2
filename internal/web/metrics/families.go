package metrics

import (
	"slices"
	"strconv"

	"github.com/mix-basic/delayer/internal/inspect"
	"github.com/mix-basic/delayer/internal/store"
	dto "github.com/prometheus/client_model/go"
)

// wholeRedis ends the help of what each front tells alike.
const wholeRedis = " Of the whole Redis, alike at every front: aggregate by max, not sum."

// family is a metric and its series. What is read from Redis for one scrape, and what each topic
// has, are put together here: by a prometheus.Collector it would take several times as long.
type family struct{ *dto.MetricFamily }

func newFamily(kind dto.MetricType, name, help string) family {
	name = "delayer_" + name
	return family{&dto.MetricFamily{Name: &name, Help: &help, Type: &kind}}
}

func gauge(name, help string) family   { return newFamily(dto.MetricType_GAUGE, name, help) }
func counter(name, help string) family { return newFamily(dto.MetricType_COUNTER, name, help) }

// with adds a series, unless the value is negative: then it is not known.
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

// redisUp is there in any case.
func redisUp(up float64) family {
	return gauge("redis_up", "1 if Redis could be asked for what all fronts tell alike, else 0, and that is not there.").with(up)
}

// families are those of the numbers.
func (n numbers) families(t *topics) []family {
	t.live(n.Used)
	return slices.Concat([]family{
		gauge("jobs_waiting", "Jobs that wait to fall due."+wholeRedis).with(float64(n.Waiting)),
		gauge("oldest_overdue_seconds", "For how long the first job, or end of a lease, has been due that no server has moved yet; 0 if there is none."+wholeRedis).with(n.Overdue.Seconds()),
		gauge("topics", "Topics that are known: they have jobs or dead letters, or had some within about the last hour."+wholeRedis).with(float64(n.Known)),
		gauge("topics_counted", "Topics whose jobs were counted: of more than 10,000 those that were used last. If these are fewer than delayer_topics, both are the least that there can be, as are the jobs of all topics together."+wholeRedis).with(float64(len(n.Topics))),
		gauge("topics_paused", "Topics of which nothing is delivered, as they are paused."+wholeRedis).with(float64(n.paused)),
		gauge("servers", "Servers that run."+wholeRedis).with(float64(n.servers)),
		counter("jobs_acked_total", "Jobs that were acknowledged by anybody."+wholeRedis).with(float64(n.acked)),
	}, ofStrays(n.strays), ofSchedules(n.schedules), ofPartitions(n.Partitions), t.gauges(n.Topics), []family{t.ofPauses(n.pauses)}, t.ofLimits(n.Topics))
}

// ofStrays are how many jobs nobody looks for.
func ofStrays(strays []store.Stray) []family {
	f := gauge("stray_jobs", "Jobs and dead letters that nobody looks for, as a program with another number of partitions has pushed them, which the label says; at least. There is no series without such jobs."+wholeRedis)
	for _, s := range strays {
		label, partitions := "partitions", strconv.Itoa(s.Partitions)
		f = f.with(float64(s.Jobs), &dto.LabelPair{Name: &label, Value: &partitions})
	}
	return []family{f}
}

// ofSchedules are how many there are, and how late.
func ofSchedules(s inspect.ScheduleStates) []family {
	all := gauge("schedules", "Schedules by state: active, paused, or ended (no further occurrence)."+wholeRedis)
	for _, one := range []struct {
		state string
		n     int
	}{{"active", s.Active}, {"paused", s.Paused}, {"ended", s.Ended}} {
		label := "state"
		all = all.with(float64(one.n), &dto.LabelPair{Name: &label, Value: &one.state})
	}
	overdue := gauge("schedule_overdue_seconds", "How long the most overdue active schedule has been due without a server firing it; 0 if none is overdue."+wholeRedis)
	return []family{all, overdue.with(s.Overdue.Seconds())}
}

// ofPauses is which of the topics with labels are paused.
func (t *topics) ofPauses(pauses inspect.Pauses) family {
	f := gauge("topic_paused", "1 for a topic of which nothing is delivered, as it is paused; the others have no series."+wholeRedis)
	for _, p := range pauses {
		if topic := t.of(p.Topic); topic != t.others {
			f.with(1, topic.label...)
		}
	}
	return f
}

// ofLimits are what the topics with labels have that have limits.
func (t *topics) ofLimits(counts []inspect.TopicCounts) []family {
	throttled := gauge("topic_throttled", "Ready jobs that have to wait because of the topic's limit; topics without a limit have no series."+wholeRedis)
	untagged := gauge("topic_untagged", "Ready jobs that nobody will get, as they lack the tag of their topic's limit; topics without such a limit have no series."+wholeRedis)
	concurrency := gauge("topic_limit_concurrency", "How many of the topic's jobs are reserved at a time, at most; 0 is any number; topics without a limit have no series."+wholeRedis)
	rate := gauge("topic_limit_rate", "How many of the topic's jobs begin to be reserved in a second, at most; 0 is any number; topics without a limit have no series."+wholeRedis)
	for _, c := range counts {
		topic := t.of(c.Topic)
		if topic == t.others || c.Limit == (store.Limit{}) {
			continue
		}
		throttled = throttled.with(float64(c.Held), topic.label...)
		if c.Limit.Tag != "" {
			untagged = untagged.with(float64(c.Untagged), topic.label...)
		}
		concurrency = concurrency.with(float64(c.Limit.Concurrency), topic.label...)
		rate = rate.with(c.Limit.Rate, topic.label...)
	}
	return []family{throttled, untagged, concurrency, rate}
}

// ofPartitions are what each partition has, where there are several.
func ofPartitions(counts []inspect.PartitionCounts) []family {
	if len(counts) <= 1 {
		return nil
	}
	each := func(name, help string, value func(inspect.PartitionCounts) float64) family {
		f := gauge("partition_"+name, help+wholeRedis)
		for _, c := range counts {
			label, number := "partition", strconv.Itoa(c.Number)
			f.with(value(c), &dto.LabelPair{Name: &label, Value: &number})
		}
		return f
	}
	return []family{
		each("up", "1 if the partition could be read, else 0, and then what all partitions have together is without it.",
			func(c inspect.PartitionCounts) float64 {
				if c.Err != nil {
					return 0
				}
				return 1
			}),
		each("waiting", "Jobs of the partition that wait to fall due.",
			func(c inspect.PartitionCounts) float64 { return float64(c.Waiting) }),
		each("ready", "Jobs of the partition that nobody has taken yet.",
			func(c inspect.PartitionCounts) float64 { return float64(c.Ready) }),
		each("reserved", "Jobs of the partition in the hands of consumers, about.",
			func(c inspect.PartitionCounts) float64 { return float64(c.Reserved) }),
		each("dead", "Dead letters of the partition.",
			func(c inspect.PartitionCounts) float64 { return float64(c.Dead) }),
		each("overdue_seconds", "For how long the partition's first job, or end of a lease, has been due that no server has moved yet; 0 if there is none.",
			func(c inspect.PartitionCounts) float64 { return c.Overdue.Seconds() }),
	}
}

// gauges are those that each topic has.
func (t *topics) gauges(counts []inspect.TopicCounts) []family {
	of := make([]*topic, len(counts))
	for i, c := range counts {
		of[i] = t.of(c.Topic)
	}
	// each makes a series of each topic's value, and one of what join makes of those of the others.
	each := func(name, help string, value func(inspect.TopicCounts) float64, join func(all, one float64) float64) family {
		f, rest := gauge(name, help+wholeRedis), float64(inspect.Unknown)
		for i, c := range counts {
			value := value(c)
			switch {
			case of[i] != t.others:
				f.with(value, of[i].label...)
			case value >= 0:
				rest = join(max(rest, 0), value)
			}
		}
		return f.with(rest, t.others.label...)
	}
	sum := func(all, one float64) float64 { return all + one }
	larger := func(all, one float64) float64 { return max(all, one) }
	return []family{
		each("jobs_ready", "Jobs that nobody has taken yet.",
			func(c inspect.TopicCounts) float64 { return float64(c.Ready) }, sum),
		each("jobs_reserved", "Jobs in the hands of consumers, about.",
			func(c inspect.TopicCounts) float64 { return float64(c.Reserved) }, sum),
		each("jobs_dead", "Dead letters.",
			func(c inspect.TopicCounts) float64 { return float64(c.Dead) }, sum),
		each("ready_oldest_overdue_seconds", "For how long the topic's next job has been ready, about, or at least; 0 if none is.",
			func(c inspect.TopicCounts) float64 { return c.AtLeast.Seconds() }, larger),
		each("ready_overdue_unknown", "1 for a topic that has entries in its ready queue, but only the least is known for how long the next job has been ready.",
			func(c inspect.TopicCounts) float64 {
				if c.Ready > 0 && c.Overdue < 0 {
					return 1
				}
				return inspect.Unknown
			}, larger),
	}
}

// counters are what this process has counted of each topic that it has met, also of those of which it
// has counted none yet: Prometheus sees only by a 0 that the first one is an increase.
func (t *topics) counters() []family {
	pushed := counter("jobs_pushed_total", "Jobs that were pushed through the HTTP front."+thisProcess)
	moved := counter("jobs_moved_total", "Jobs that became ready, since they were due or their leases had ended."+thisProcess)
	returned := counter("leases_returned_total", "Leases that ended by themselves, so that their jobs are delivered again."+thisProcess)
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, topic := range t.all() {
		pushed.with(float64(topic.pushed), topic.label...)
		moved.with(float64(topic.moved), topic.label...)
		returned.with(float64(topic.returned), topic.label...)
	}
	return []family{pushed, moved, returned}
}
