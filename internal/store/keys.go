package store

import "fmt"

// DefaultPrefix begins the original's key names.
const DefaultPrefix = "delayer:"

// Keys names every key there is. Nothing else builds a key name.
type Keys struct{ prefix string }

// KeysOf are the keys whose names begin with that prefix.
func KeysOf(prefix string) Keys { return Keys{prefix} }

// Prefix is what the names of all keys begin with.
func (k Keys) Prefix() string { return k.prefix }

// Partition is the Keys of the partition of that number, where there are several. Its number in braces puts all of its keys into one slot of a
// Redis Cluster.
func (k Keys) Partition(i int) Keys { return Keys{fmt.Sprintf("%s{%d}:", k.prefix, i)} }

// Layout is the hash that says how many partitions there are. It is one of partition 0.
func (k Keys) Layout() string { return k.prefix + "partitions" }

// JobPool is the zset of waiting job IDs, scored by Unix time in seconds.
func (k Keys) JobPool() string { return k.prefix + "job_pool" }

// JobBucket is the hash with a job's topic and body. With an empty ID it is
// what the names of all buckets begin with.
func (k Keys) JobBucket(id string) string { return k.prefix + "job_bucket:" + id }

// ReadyQueue is the list of a topic's job IDs that are due. With an empty topic
// it is what the names of all ready queues begin with.
func (k Keys) ReadyQueue(topic string) string { return k.prefix + "ready_queue:" + topic }

// Reserved is the hash with the number of reserved jobs of each topic.
func (k Keys) Reserved() string { return k.prefix + "reserved" }

// Limits is the hash of what limits the topics' jobs, as limit.lua writes it. The number of such a topic in Reserved is raised by 2^40, and by 2^41 if
// its jobs have slots.
func (k Keys) Limits() string { return k.prefix + "limits" }

// Slots is the zset of the topic's jobs that are reserved, if there is a limit of how many these are, each scored by the Unix time in
// µs at which its lease ends, or earlier, if it was extended.
func (k Keys) Slots(topic string) string { return k.prefix + "slots:" + topic }

// Uncounted is the hash of the topics with reserved jobs that may have no slots, see limit.lua: topic, and when its limit was set (Unix µs).
func (k Keys) Uncounted() string { return k.prefix + "uncounted" }

// Throttled is the zset of the clients that wait until one of the topic's slots is free, each scored by the Unix time in µs since when.
func (k Keys) Throttled(topic string) string { return k.prefix + "held_back:" + topic }

// Topics is the zset of the topics that are known, scored by the Unix time in seconds at which
// one was last seen in use: a job of it was pushed or moved.
func (k Keys) Topics() string { return k.prefix + "topics" }

// TopicsDue is the zset of the topics that have jobs which fall due later, scored by the Unix
// time in seconds until when they may wait.
func (k Keys) TopicsDue() string { return k.Topics() + "_due" }

// DeadLetter is the hash that a job's bucket becomes when the job is buried. With an
// empty ID it is what the names of all dead letters begin with.
func (k Keys) DeadLetter(id string) string { return k.prefix + "dead_letter:" + id }

// DeadLetters is the zset of a topic's dead letters, scored by the Unix time in ms at
// which they were buried. With an empty topic it is what the names of all these begin with.
func (k Keys) DeadLetters(topic string) string { return k.prefix + "dead_letters:" + topic }

// DeadTopics is the zset of the topics that have dead letters, scored by when the
// oldest of these was buried.
func (k Keys) DeadTopics() string { return k.prefix + "dead_topics" }

// Acked is the number of jobs that were ever acknowledged.
func (k Keys) Acked() string { return k.prefix + "acked" }

// Servers is the hash of the servers that run, see ServerState.
func (k Keys) Servers() string { return k.prefix + "servers" }

// History is the hash of what all servers have done in the last hour, see History of a Store.
func (k Keys) History() string { return k.prefix + "history" }

// Group is the hash with the ID of the job that is a tag's group, as long as pushes are added to it. With an empty tag it is what
// the names of all these begin with.
func (k Keys) Group(tag string) string { return k.prefix + "group:" + tag }

// GroupText is a string that for a while is the same as the body of a large group, see group.lua.
func (k Keys) GroupText(id string) string { return k.prefix + "group_text:" + id }

// Migration is the hash of what is known of jobs that move from one partition to another: in the one that they leave the
// serial number of the last batch that was put in transit, in the one that they go to that of the last that came from there.
func (k Keys) Migration() string { return k.prefix + "migration" }

// PutInTransit is the hash of the jobs that are on their way to another partition: w, r or d, as they were waiting, ready or dead, and
// their ID; and when they were due, their order, or when they were buried. And o and an ID, and its score in Once.
func (k Keys) Transit() string { return k.prefix + "set_aside" }

// TransitJob is what the bucket, or dead letter, becomes of a job in transit. With an empty entry of Transit it is what the
// names of all these begin with.
func (k Keys) TransitJob(entry string) string { return k.Transit() + ":" + entry }

// FirstDue is the channel on which it is said that another job has become the pool's first.
// The message is in how many ms that falls due.
func (k Keys) FirstDue() string { return k.prefix + "first_due" }

// Once is the zset of the IDs of which no push counts, scored by the Unix time in ms until when.
func (k Keys) Once() string { return k.prefix + "once" }

// OnceContent is the hash with what the push of the ID says that counts, in short, if that is to be told apart: of, until when it does
// (Unix ms), a blank, and that.
func (k Keys) OnceContent(id string) string { return k.prefix + "once_content:" + id }

// Schedules is the zset of the names of all schedules, scored 0. Each is a job.
func (k Keys) Schedules() string { return k.prefix + "schedules" }

// RemovedSchedules is the zset of the names of schedules that somebody has removed by hand though a file has them, scored 0: until a daemon
// starts they stay away.
func (k Keys) RemovedSchedules() string { return k.prefix + "removed_schedules" }

// ScheduleLists is the hash of what schedules the files of the servers that run have, by an ID of the list: when that was written (Unix
// ms), and the names, each with a line break before it.
func (k Keys) ScheduleLists() string { return k.prefix + "schedule_lists" }

// Paused is the hash of the paused topics: since when and until when an operator has paused one, the same of its backing
// off (Unix ms, 0 if there is none), and the operator's note, divided by blanks.
func (k Keys) Paused() string { return k.prefix + "paused" }

// PausedQueue is what the topic's ready queue is while it is paused. With an empty topic it is what the names of all these begin
// with.
func (k Keys) PausedQueue(topic string) string { return k.prefix + "paused_queue:" + topic }

// PausedWaiting is where the clients stand that wait for a paused topic; Waiting is a hash then.
func (k Keys) PausedWaiting(topic string) string { return k.prefix + "paused_waiting:" + topic }

// Waiting is the zset of the clients that wait for jobs of the topic, each scored by the Unix time in µs
// since when.
func (k Keys) Waiting(topic string) string { return k.prefix + "waiting:" + topic }

// Wake is the channel on which a client that waits is woken. The message is how many jobs there are, a
// blank, and of which topic. With an empty client it is what the names of all such channels begin with.
func (k Keys) Wake(client string) string { return k.prefix + "wake:" + client }

// Client is the list that says which program a client is that waits: its host, process and name.
func (k Keys) Client(client string) string { return k.prefix + "client:" + client }
