package client_test

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/store"
)

// seed replaces everything in Redis. Each text is one command, split at spaces; in+3600 stands for the Unix time an
// hour from now by Redis's clock.
func (f *fixture) seed(commands ...string) {
	f.TB.Helper()
	f.Flush()
	f.seedMore(commands...)
}

// seedMore is seed without deleting anything.
func (f *fixture) seedMore(commands ...string) {
	f.TB.Helper()
	for _, command := range commands {
		words := strings.Fields(command)
		args := make([]any, 0, len(words))
		for _, word := range words[1:] {
			if seconds, ok := strings.CutPrefix(word, "in"); ok {
				offset, err := strconv.ParseFloat(seconds, 64)
				check(f.TB, err)
				word = fmt.Sprintf("%.3f", math.Ceil((f.Clock()+offset)*1000)/1000)
			}
			args = append(args, word)
		}
		f.place(args)
		f.Do(words[0], args...)
	}
}

// place moves the key of a command to the partition of its job. The bucket names the job, or else the last word does.
func (f *fixture) place(args []any) {
	key := args[0].(string)
	name, ours := strings.CutPrefix(key, "delayer:")
	if id, ok := strings.CutPrefix(name, "job_bucket:"); ok {
		args[0] = f.keyOf(id, name)
	} else if ours {
		args[0] = f.keyOf(args[len(args)-1].(string), name)
	}
}

// bucket returns the command that stores a job's content for an hour.
func bucket(id, topic string) []string {
	return []string{
		"HSET delayer:job_bucket:" + id + " topic " + topic + " body old",
		"EXPIRE delayer:job_bucket:" + id + " 3600",
	}
}

// waiting returns the commands that store a job that falls due in 1,000 s.
func waiting(id, topic string) []string {
	return append(bucket(id, topic), "ZADD delayer:job_pool in+1000 "+id)
}

// ready returns the commands that store a job in its topic's ready queue.
func ready(id, topic string) []string { return append(bucket(id, topic), entry(id, topic)...) }

// entry returns the command that adds an ID to a ready queue.
func entry(id, topic string) []string {
	return []string{"LPUSH delayer:ready_queue:" + topic + " " + id}
}

func all(parts ...[]string) []string {
	var list []string
	for _, part := range parts {
		list = append(list, part...)
	}
	return list
}

// keyOf returns a key in the partition of this job.
func (f *fixture) keyOf(id, name string) string {
	if f.Partitions > 1 {
		return fmt.Sprintf("%s{%d}:%s", f.Prefix, store.PartitionOf(id, f.Partitions), name)
	}
	return f.Prefix + name
}

// bucketOf returns the key of the job's bucket.
func (f *fixture) bucketOf(id string) string { return f.keyOf(id, "job_bucket:"+id) }

// expires returns the time at which a job's bucket expires, in Unix seconds.
func (f *fixture) expires(id string) float64 {
	f.TB.Helper()
	return float64(f.Do("PEXPIRETIME", f.bucketOf(id)).(int64)) / 1000
}

// push pushes a job that is ready at once.
func (f *fixture) push(id, topic string, opts ...client.PushOption) {
	f.TB.Helper()
	f.put(client.Message{ID: id, Topic: topic, Body: "body"}, 0, opts...)
}

// put pushes the job.
func (f *fixture) put(m client.Message, delay time.Duration, opts ...client.PushOption) {
	f.TB.Helper()
	_, err := f.Push(f.TB.Context(), m, delay, opts...)
	check(f.TB, err)
}

// pushSilently makes a job ready as an old server does, without a wake-up.
func (f *fixture) pushSilently(id, topic string) {
	f.TB.Helper()
	f.seedMore(ready(id, topic)...)
}
