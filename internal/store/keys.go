package store

import "fmt"

// DefaultPrefix begins the original's key names.
const DefaultPrefix = "delayer:"

// Keys names every key and channel. No other code builds a key name. With an empty argument a method returns the beginning of the names.
type Keys struct{ prefix string }

// KeysOf returns the keys whose names begin with the prefix.
func KeysOf(prefix string) Keys { return Keys{prefix} }

// Prefix returns the beginning of all key names.
func (k Keys) Prefix() string { return k.prefix }

// Partition returns the Keys of a partition if there are several. Its number in braces puts all of them into one slot of a Redis Cluster.
func (k Keys) Partition(i int) Keys { return Keys{fmt.Sprintf("%s{%d}:", k.prefix, i)} }

// Layout is the hash with the number of partitions. Partition 0 decides.
func (k Keys) Layout() string { return k.prefix + "partitions" }

// JobPool is the zset of waiting job IDs, scored by Unix time in seconds.
func (k Keys) JobPool() string { return k.prefix + "job_pool" }

// JobBucket is the hash with a job's topic and body.
func (k Keys) JobBucket(id string) string { return k.prefix + "job_bucket:" + id }

// ReadyQueue is the list of a topic's job IDs that are due.
func (k Keys) ReadyQueue(topic string) string { return k.prefix + "ready_queue:" + topic }

// Reserved is the hash with the number of reserved jobs of each topic.
func (k Keys) Reserved() string { return k.prefix + "reserved" }

// Limits is the hash of the topics' limits, as limit.lua writes them. The number of such a topic in Reserved is raised by 2^40, and by 2^41 if
// its jobs have slots.
func (k Keys) Limits() string { return k.prefix + "limits" }

// Slots is the zset of the topic's reserved jobs under a limit on concurrency, scored by the Unix time in µs at which the lease ends, or earlier
// if it was extended.
func (k Keys) Slots(topic string) string { return k.prefix + "slots:" + topic }

// ThrottledWaiters is the zset of the clients that wait for a free slot of the topic, scored by the start of the wait (Unix µs).
func (k Keys) ThrottledWaiters(topic string) string { return k.prefix + "throttled_waiters:" + topic }

// Topics is the zset of the known topics, scored by when a job was last pushed or moved (Unix s).
func (k Keys) Topics() string { return k.prefix + "topics" }

// TopicsDue is the zset of the topics with jobs that fall due later, scored by an upper bound of their due times (Unix s).
func (k Keys) TopicsDue() string { return k.Topics() + "_due" }

// PushedTopics is the zset of the known topics that clients of ours and schedules push to, scored by when one last registered there (Unix s).
// Topics also has those that only clients of the original push to.
func (k Keys) PushedTopics() string { return k.prefix + "pushed_topics" }

// DeadLetter is the hash that a job's bucket becomes when the job is buried.
func (k Keys) DeadLetter(id string) string { return k.prefix + "dead_letter:" + id }

// DeadLetters is the zset of a topic's dead letters, scored by when they were buried (Unix ms).
func (k Keys) DeadLetters(topic string) string { return k.prefix + "dead_letters:" + topic }

// DeadTopics is the zset of the topics that have dead letters, scored by the oldest.
func (k Keys) DeadTopics() string { return k.prefix + "dead_topics" }

// Acked is the number of jobs that were ever acknowledged.
func (k Keys) Acked() string { return k.prefix + "acked" }

// Servers is the hash of the running servers, see ServerState.
func (k Keys) Servers() string { return k.prefix + "servers" }

// History is the hash of all servers' work in the last hour, see Store.History.
func (k Keys) History() string { return k.prefix + "history" }

// Group is the hash with the ID of the job that is a tag's open group.
func (k Keys) Group(tag string) string { return k.prefix + "group:" + tag }

// GroupText is a string that equals the body of a large group for a while, see group.lua.
func (k Keys) GroupText(id string) string { return k.prefix + "group_text:" + id }

// FirstDue is the channel that announces a new first job of the pool. The message is the time until it is due (ms).
func (k Keys) FirstDue() string { return k.prefix + "first_due" }

// Once is the zset of the IDs whose pushes do not count, scored by the end of that time (Unix ms).
func (k Keys) Once() string { return k.prefix + "once" }

// OnceContent is the hash with the fingerprint of the ID's push that counts: of, the end of the time for which it counts (Unix ms), a
// blank, and the fingerprint.
func (k Keys) OnceContent(id string) string { return k.prefix + "once_content:" + id }

// Schedules is the zset of the names of all schedules, scored 0. Each is a job.
func (k Keys) Schedules() string { return k.prefix + "schedules" }

// RemovedSchedules is the zset of the names of schedules of a file that were removed by hand, scored 0. They stay away until a daemon starts.
func (k Keys) RemovedSchedules() string { return k.prefix + "removed_schedules" }

// ScheduleLists is the hash of the schedules in the files of running servers, by list ID: the time of writing (Unix ms), and the names,
// each after a line break.
func (k Keys) ScheduleLists() string { return k.prefix + "schedule_lists" }

// Paused is the hash of the paused topics: start and end of the operator's pause, start and end of the consumers' throttling (Unix ms; 0
// for neither), and the operator's note, separated by blanks.
func (k Keys) Paused() string { return k.prefix + "paused" }

// PausedQueue is the renamed ready queue of a paused topic.
func (k Keys) PausedQueue(topic string) string { return k.prefix + "paused_queue:" + topic }

// PausedWaiters is the zset of the waiters of a paused topic, as Waiters is a hash then.
func (k Keys) PausedWaiters(topic string) string { return k.prefix + "paused_waiters:" + topic }

// Waiters is the zset of the clients that wait for jobs of the topic, scored by the start of the wait (Unix µs).
func (k Keys) Waiters(topic string) string { return k.prefix + "waiters:" + topic }

// Wake is the channel on which a waiting client is woken. The message is the number of jobs, a blank, and the topic.
func (k Keys) Wake(client string) string { return k.prefix + "wake:" + client }

// Client is the list with the host, process and name of a waiting client's program.
func (k Keys) Client(client string) string { return k.prefix + "client:" + client }

// KeyEntry is an entry of KeyTable.
type KeyEntry struct {
	Name string // without the prefix; with a colon at its end if an ID, a topic or the like follows
	Type string // as in Redis's TYPE; "channel" for a channel
	Kind string // for fsck_keys.lua, if something follows the name and it is a key
	lua  string // its name in the scripts, if they use it
}

// KeyTable has every key and channel. The scripts' names, the kinds of FindKey and fsck_keys.lua, and the test of the tables in
// docs/wire-format.md and keys.md come from it.
var KeyTable = func(k Keys) []KeyEntry {
	return []KeyEntry{
		{k.JobBucket(""), "hash", "bucket", "buckets"},
		{k.ReadyQueue(""), "list", "ready", "queues"},
		{k.Waiters(""), "zset", "waiters", "waiters"},
		{k.Wake(""), "channel", "", "wake_channels"},
		{k.FirstDue(), "channel", "", "first_due_channel"},
		{k.Reserved(), "hash", "", "reserved_counts"},
		{k.Limits(), "hash", "", "limits"},
		{k.Slots(""), "zset", "slots", "slots"},
		{k.ThrottledWaiters(""), "zset", "throttled_waiters", "throttled_waiters"},
		{k.Acked(), "string", "", "acked_count"},
		{k.Topics(), "zset", "", "known_topics"},
		{k.TopicsDue(), "zset", "", "topics_due"},
		{k.PushedTopics(), "zset", "", "pushed_topics"},
		{k.DeadLetter(""), "hash", "letter", "dead_letters"},
		{k.DeadLetters(""), "zset", "dead", "dead_lists"},
		{k.DeadTopics(), "zset", "", "dead_topics"},
		{k.Servers(), "hash", "", "server_states"},
		{k.History(), "hash", "", "past_hour"},
		{k.Once(), "zset", "", "once"},
		{k.OnceContent(""), "hash", "once", "once_contents"},
		{k.Schedules(), "zset", "", "schedules"},
		{k.RemovedSchedules(), "zset", "", "removed_schedules"},
		{k.ScheduleLists(), "hash", "", "schedule_lists"},
		{k.Paused(), "hash", "", "pauses"},
		{k.PausedQueue(""), "list", "parked", "parked_queues"},
		{k.PausedWaiters(""), "zset", "paused_waiters", "paused_waiters"},
		{k.Group(""), "hash", "group", "groups"},
		{k.GroupText(""), "string", "text", "texts"},
		{k.Client(""), "list", "client", ""},
		{k.JobPool(), "zset", "", ""}, // the scripts' pool, from which they take the prefix
		{k.Layout(), "hash", "", ""},
	}
}(Keys{})
