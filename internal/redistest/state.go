package redistest

import (
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

// State is all that lies in a Redis database, in a form that tests can compare, but for the
// known topics, the servers that run, their last hour, and the number of jobs that were acknowledged.
type State struct {
	Pool     []string            // waiting IDs, in due order
	Reserved []string            // reserved IDs, in the order in which their leases end
	Counts   map[string]string   // topic → the number of its reserved jobs that is kept, if it is not 0
	Ready    map[string][]string // topic → IDs, the next one first
	Buckets  map[string]string   // ID → "topic body"
	Dead     map[string][]string // topic → IDs of its dead letters, the oldest first
	Letters  map[string]string   // ID of a dead letter → "topic body"
	Other    map[string]string   // any other key, or one of the wrong type → its type
}

// State reads the whole database.
func (f *Fixture) State() State {
	f.TB.Helper()
	s := State{
		Counts: map[string]string{}, Ready: map[string][]string{}, Buckets: map[string]string{},
		Dead: map[string][]string{}, Letters: map[string]string{}, Other: map[string]string{},
	}
	keys := f.Strings("KEYS", "*")
	kinds := f.each(keys, "TYPE")
	var buckets, letters, deadTopics []string
	for i, key := range keys {
		kind := kinds[i].(string)
		name, ours := strings.CutPrefix(key, f.Prefix)
		name, topic, named := strings.Cut(name, ":")
		switch {
		case !ours:
			name = ""
		case named:
			name += ":"
		}
		switch name + " " + kind {
		case "job_pool zset":
			s.Pool, s.Reserved = f.waitingAndReserved(key)
		case "topics zset", "topics_due zset", "waiting: zset", "servers hash", "history hash", "acked string":
		case "dead_topics zset":
			deadTopics = f.Strings("ZRANGE", key, 0, -1)
		case "reserved hash":
			s.Counts = f.stringMap("HGETALL", key)
			maps.DeleteFunc(s.Counts, func(_, count string) bool { return count == "0" })
		case "dead_letters: zset":
			s.Dead[topic] = f.Strings("ZRANGE", key, 0, -1)
		case "dead_letter: hash":
			letters = append(letters, key)
		case "ready_queue: list":
			s.Ready[topic] = f.Queue(topic)
		case "job_bucket: hash":
			buckets = append(buckets, key)
		default:
			if kind != "none" { // it expired just now
				s.Other[key] = kind
			}
		}
	}
	f.contents(buckets, "job_bucket:", s.Buckets)
	f.contents(letters, "dead_letter:", s.Letters)
	slices.Sort(deadTopics)
	if indexed := slices.Sorted(maps.Keys(s.Dead)); !slices.Equal(indexed, deadTopics) {
		f.TB.Errorf("topics with dead letters: %q, but dead_topics has %q", indexed, deadTopics)
	}
	return s
}

func (f *Fixture) contents(keys []string, prefix string, into map[string]string) {
	f.TB.Helper()
	for i, reply := range f.each(keys, "HMGET", "topic", "body") {
		fields, err := redis.Strings(reply, nil)
		Check(f.TB, err)
		into[strings.TrimPrefix(keys[i], f.Prefix+prefix)] = fields[0] + " " + fields[1]
	}
}

// waitingAndReserved tells leases, which end at no whole millisecond, from due times.
func (f *Fixture) waitingAndReserved(pool string) (waiting, reserved []string) {
	f.TB.Helper()
	entries := f.Strings("ZRANGE", pool, 0, -1, "WITHSCORES")
	for ; len(entries) > 0; entries = entries[2:] {
		score, err := strconv.ParseFloat(entries[1], 64)
		Check(f.TB, err)
		micros := math.Round(score * 1e6)
		if math.Mod(micros, 1000) != 0 && score < 1<<32 {
			reserved = append(reserved, entries[0])
		} else {
			waiting = append(waiting, entries[0])
		}
	}
	return waiting, reserved
}

// Expect fails the test unless the whole database is as wanted, where a nil map
// or list is an empty one.
func (f *Fixture) Expect(want State) {
	f.TB.Helper()
	all, wanted := reflect.ValueOf(f.State()), reflect.ValueOf(want)
	for i := range all.NumField() {
		got, want := all.Field(i), wanted.Field(i)
		if got.Len()+want.Len() > 0 && !reflect.DeepEqual(got.Interface(), want.Interface()) {
			f.TB.Errorf("%s in Redis:\n got %.2000q\nwant %.2000q", all.Type().Field(i).Name, got, want)
		}
	}
}

// Scores reads when the waiting jobs fall due, by ID, as Redis words it.
func (f *Fixture) Scores() map[string]string {
	f.TB.Helper()
	return f.stringMap("ZRANGE", f.Prefix+"job_pool", 0, -1, "WITHSCORES")
}

// Due is when a waiting job falls due, in Unix seconds; NaN if it does not wait.
func (f *Fixture) Due(id string) float64 {
	f.TB.Helper()
	score, ok := f.Scores()[id]
	if !ok {
		return math.NaN()
	}
	due, err := strconv.ParseFloat(score, 64)
	Check(f.TB, err)
	return due
}

// Lifetimes reads how long the buckets are kept from now on, by ID; -1 is for
// ever. What exceeds a time.Duration is cut to the longest one.
func (f *Fixture) Lifetimes() map[string]time.Duration {
	f.TB.Helper()
	const longest = int64(1<<63-1) / int64(time.Millisecond)
	lifetimes := map[string]time.Duration{}
	keys := f.Strings("KEYS", f.Prefix+"job_bucket:*")
	for i, reply := range f.each(keys, "PTTL") {
		ms := reply.(int64)
		if ms == -2 {
			continue // it expired just now
		}
		lifetime := time.Duration(min(ms, longest)) * time.Millisecond
		lifetimes[strings.TrimPrefix(keys[i], f.Prefix+"job_bucket:")] = max(lifetime, -1)
	}
	return lifetimes
}

func (f *Fixture) stringMap(command string, args ...any) map[string]string {
	f.TB.Helper()
	values, err := redis.StringMap(f.Do(command, args...), nil)
	Check(f.TB, err)
	return values
}

// each runs a command on each of the keys.
func (f *Fixture) each(keys []string, command string, args ...any) []any {
	f.TB.Helper()
	if len(keys) == 0 {
		return nil
	}
	f.own.mu.Lock()
	defer f.own.mu.Unlock()
	conn := f.dial()
	for _, key := range keys {
		Check(f.TB, conn.Send(command, append([]any{key}, args...)...))
	}
	replies, err := redis.Values(conn.Do(""))
	Check(f.TB, err)
	return replies
}
