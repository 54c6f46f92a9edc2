package redistest

import (
	"cmp"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

// State is the whole content of a Redis database in a form that tests can compare. It omits the known topics,
// the running servers and their history, the numbers of acknowledged jobs and of partitions, which
// group accepts further pushes and the groups' texts, and which
// schedules come from files or were removed by hand. Several partitions are merged; only the topics of Ready
// name the partition, as in "topic of 3". If Open chose the partitions, the topics name none and have no
// order.
type State struct {
	Pool      []string            // waiting IDs, in due order
	Reserved  []string            // reserved IDs, ordered by the end of their leases
	Counts    map[string]string   // topic → the stored number of its reserved jobs, if not 0
	Ready     map[string][]string // topic → IDs, the next one first
	Paused    map[string][]string // like Ready, for paused topics
	Buckets   map[string]string   // ID → "topic body"
	Dead      map[string][]string // topic → IDs of its dead letters, the oldest first
	Letters   map[string]string   // ID of a dead letter → "topic body"
	Limits    map[string]string   // topic → its limit
	Slots     map[string][]string // topic → IDs that occupy one of its slots
	Schedules []string            // names
	Once      []string            // IDs whose further pushes do not count, or did not until lately
	Other     map[string]string   // any other key, or one of the wrong type → its type
}

// raisedBy is the amount that a limit adds to a topic's number of reserved jobs.
const raisedBy = 1 << 40

// State reads the whole database.
func (f *Fixture) State() State {
	f.TB.Helper()
	s := State{
		Counts: map[string]string{}, Ready: map[string][]string{}, Paused: map[string][]string{}, Buckets: map[string]string{},
		Dead: map[string][]string{}, Letters: map[string]string{}, Other: map[string]string{},
		Limits: map[string]string{}, Slots: map[string][]string{},
	}
	keys := f.keys()
	kinds := f.each(keys, "TYPE")
	var buckets, letters, pools []string
	dead := map[string][]string{}       // topic → the lists of its dead letters
	indexed := map[string][]string{}    // partition → the topics that have such a list
	deadTopics := map[string][]string{} // partition → the topics in its index of dead letters
	counts := map[string]int{}
	for i, key := range keys {
		kind := kinds[i].(string)
		partition, name, ours := f.divide(key)
		name, topic, named := strings.Cut(name, ":")
		switch {
		case !ours:
			name = ""
		case named:
			name += ":"
		}
		switch name + " " + kind {
		case "job_pool zset":
			pools = append(pools, key)
		case "topics zset", "topics_due zset", "pushed_topics zset", "waiters: zset", "servers hash", "history hash", "acked string",
			"waiters: hash", "throttled_waiters: zset", "paused_waiters: zset", "client: list", "paused hash", "removed_schedules zset", "schedule_lists hash", "group: hash", "group_text: string", "once_content: hash":
		case "schedules zset":
			s.Schedules = append(s.Schedules, f.Strings("ZRANGE", key, 0, -1)...)
		case "once zset":
			s.Once = append(s.Once, f.Strings("ZRANGE", key, 0, -1)...)
		case "dead_topics zset":
			deadTopics[partition] = f.Strings("ZRANGE", key, 0, -1)
		case "reserved hash":
			for topic, count := range f.stringMap("HGETALL", key) {
				n, err := strconv.Atoi(count)
				if err != nil {
					s.Counts[topic] = count
				}
				counts[topic] += n % raisedBy
			}
		case "limits hash":
			for topic, limit := range f.stringMap("HGETALL", key) {
				fields := strings.SplitN(limit, " ", 6) // the partition's share, the number started, and the limit
				s.Limits[topic] = fields[len(fields)-1]
			}
		case "slots: zset":
			s.Slots[topic] = append(s.Slots[topic], f.Strings("ZRANGE", key, 0, -1)...)
		case "dead_letters: zset":
			dead[topic] = append(dead[topic], key)
			indexed[partition] = append(indexed[partition], topic)
		case "dead_letter: hash":
			letters = append(letters, key)
		case "ready_queue: list", "paused_queue: list":
			if partition != "" && !f.joined {
				topic += " of " + partition
			}
			ids := f.Strings("LRANGE", key, 0, -1)
			slices.Reverse(ids)
			if name == "paused_queue:" {
				s.Paused[topic] = append(s.Paused[topic], ids...)
			} else {
				s.Ready[topic] = append(s.Ready[topic], ids...)
			}
		case "job_bucket: hash":
			buckets = append(buckets, key)
		default:
			if kind != "none" && !(partition != "" && name == "partitions") { // none: just expired
				s.Other[f.standardName(key)] = kind
			}
		}
	}
	slices.Sort(s.Once)
	slices.Sort(s.Schedules)
	for _, ids := range s.Slots {
		slices.Sort(ids)
	}
	s.Pool, s.Reserved = f.waitingAndReserved(pools)
	for topic, n := range counts {
		if n != 0 {
			s.Counts[topic] = strconv.Itoa(n)
		}
	}
	for topic, lists := range dead {
		for _, entry := range f.entries(lists) {
			s.Dead[topic] = append(s.Dead[topic], entry.id)
		}
	}
	f.contents(buckets, "job_bucket:", s.Buckets)
	f.contents(letters, "dead_letter:", s.Letters)
	for _, lists := range []map[string][]string{deadTopics, indexed} {
		for _, topics := range lists {
			slices.Sort(topics)
		}
	}
	if !reflect.DeepEqual(indexed, deadTopics) {
		f.TB.Errorf("topics with dead letters: %q, but dead_topics has %q", indexed, deadTopics)
	}
	return s
}

// divide returns the partition of one of the test's keys, and the key's name there.
func (f *Fixture) divide(key string) (partition, name string, ours bool) {
	name, ours = strings.CutPrefix(key, f.Prefix)
	if braces, tagged := strings.CutPrefix(name, "{"); ours && tagged && f.Partitions > 1 {
		partition, name, ours = strings.Cut(braces, "}:")
		return partition, name, ours
	}
	return "", name, ours && f.Partitions <= 1
}

// standardName returns a key's name under the standard prefix.
func (f *Fixture) standardName(key string) string {
	if name, ours := strings.CutPrefix(key, f.Prefix); ours {
		return standardPrefix + name
	}
	return key
}

func (f *Fixture) contents(keys []string, prefix string, into map[string]string) {
	f.TB.Helper()
	for i, reply := range f.each(keys, "HMGET", "topic", "body") {
		fields, err := redis.Strings(reply, nil)
		Check(f.TB, err)
		_, name, _ := f.divide(keys[i])
		into[strings.TrimPrefix(name, prefix)] = fields[0] + " " + fields[1]
	}
}

// waitingAndReserved separates leases, which end at a fraction of a millisecond, from due times.
func (f *Fixture) waitingAndReserved(pools []string) (waiting, reserved []string) {
	f.TB.Helper()
	for _, entry := range f.entries(pools) {
		micros := math.Round(entry.score * 1e6)
		if math.Mod(micros, 1000) != 0 && entry.score < 1<<32 {
			reserved = append(reserved, entry.id)
		} else {
			waiting = append(waiting, entry.id)
		}
	}
	return waiting, reserved
}

type scored struct {
	id    string
	score float64
}

// entries returns the members of zsets in order.
func (f *Fixture) entries(zsets []string) (all []scored) {
	f.TB.Helper()
	for _, zset := range zsets {
		entries := f.Strings("ZRANGE", zset, 0, -1, "WITHSCORES")
		for ; len(entries) > 0; entries = entries[2:] {
			score, err := strconv.ParseFloat(entries[1], 64)
			Check(f.TB, err)
			all = append(all, scored{entries[0], score})
		}
	}
	slices.SortFunc(all, func(a, b scored) int { return cmp.Or(cmp.Compare(a.score, b.score), cmp.Compare(a.id, b.id)) })
	return all
}

// Expect fails the test unless the whole database is as wanted. A nil map or list counts as empty.
func (f *Fixture) Expect(want State) {
	f.TB.Helper()
	got := f.State()
	if f.joined {
		want.Ready, want.Paused = maps.Clone(want.Ready), maps.Clone(want.Paused)
		for _, queues := range []map[string][]string{got.Ready, got.Paused, want.Ready, want.Paused} {
			for topic, ids := range queues {
				queues[topic] = slices.Sorted(slices.Values(ids))
			}
		}
	}
	all, wanted := reflect.ValueOf(got), reflect.ValueOf(want)
	for i := range all.NumField() {
		got, want := all.Field(i), wanted.Field(i)
		if got.Len()+want.Len() > 0 && !reflect.DeepEqual(got.Interface(), want.Interface()) {
			f.TB.Errorf("%s in Redis:\n got %.2000q\nwant %.2000q", all.Type().Field(i).Name, got, want)
		}
	}
}

// Scores returns the due times of waiting jobs by ID, in Redis's format.
func (f *Fixture) Scores() map[string]string {
	f.TB.Helper()
	scores := map[string]string{}
	for _, prefix := range f.Prefixes() {
		maps.Copy(scores, f.stringMap("ZRANGE", prefix+"job_pool", 0, -1, "WITHSCORES"))
	}
	return scores
}

// Due returns when a waiting job falls due, in Unix seconds, or NaN if it does not wait.
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

// Lifetimes returns the remaining lifetimes of the buckets by ID; -1 means for ever. A lifetime
// longer than a time.Duration is returned as the longest one.
func (f *Fixture) Lifetimes() map[string]time.Duration {
	f.TB.Helper()
	const longest = int64(1<<63-1) / int64(time.Millisecond)
	lifetimes := map[string]time.Duration{}
	var ids, keys []string
	for _, key := range f.keys() {
		_, name, ours := f.divide(key)
		if id, isBucket := strings.CutPrefix(name, "job_bucket:"); ours && isBucket {
			ids, keys = append(ids, id), append(keys, key)
		}
	}
	for i, reply := range f.each(keys, "PTTL") {
		ms := reply.(int64)
		if ms == -2 {
			continue // just expired
		}
		lifetimes[ids[i]] = max(time.Duration(min(ms, longest))*time.Millisecond, -1)
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
	for _, key := range keys {
		Check(f.TB, f.dial(f.addrOf(key)).Send(command, append([]any{key}, args...)...))
	}
	var replies []any
	for _, key := range keys {
		conn := f.own.to[f.addrOf(key)]
		Check(f.TB, conn.Flush())
		reply, err := conn.Receive()
		Check(f.TB, err)
		replies = append(replies, reply)
	}
	return replies
}
