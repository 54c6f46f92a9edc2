package store

import (
	"context"
	"fmt"
	"strings"

	"github.com/gomodule/redigo/redis"
)

var (
	fsckQueueScript    = newScript("fsck_queue")
	fsckPoolScript     = newScript("fsck_pool")
	fsckSetScript      = newScript("fsck_set")
	fsckKeysScript     = newScript("fsck_keys")
	fsckLostScript     = newScript("fsck_lost")
	fsckReservedScript = newScript("fsck_reserved")
)

// Fault is a problem that a check has found. docs/runbook.md lists the kinds; Name is an ID, a topic or a key.
type Fault struct {
	Kind, Name string
	Repaired   bool
}

// Scanned is a page of a check.
type Scanned struct {
	Took   int    // run time of the script (µs)
	Next   string // start of the next page; "0" at the end
	IDs    []string
	Faults []Fault
}

// readFaults reads {kind, name, 1 if it was repaired, …}.
func readFaults(list []any) (faults []Fault, err error) {
	for len(list) > 0 && err == nil {
		var f Fault
		list, err = redis.Scan(list, &f.Kind, &f.Name, &f.Repaired)
		faults = append(faults, f)
	}
	return faults, err
}

// mode returns the argument that lets a script repair.
func mode(repair bool) string {
	if repair {
		return repairFaults
	}
	return ""
}

// QueuePlace is a position in a queue: the Left entries at its right end have not been read yet. The zero value is the beginning.
type QueuePlace struct {
	Begun bool
	Left  int
	Last  string // last entry read
}

// QueuePage is a page of a queue.
type QueuePage struct {
	Took int        // run time of the script (µs)
	At   QueuePlace // start of the next page; nothing is Left at the end
	Read int        // entries
	IDs  []string   // of those that have a job
}

// FsckQueue reads a page of a topic's ready queue, or of its parked jobs.
func (s *Store) FsckQueue(topic string, parked bool, at QueuePlace, count int) *Call[QueuePage] {
	which, left := "ready", any("")
	if parked {
		which = "parked"
	}
	if at.Begun {
		left = at.Left
	}
	args := append(arguments(5, s.jobPool), topic, which, left, at.Last, count)
	return newCall(s, fsckQueueScript, args, func(reply any) (page QueuePage, err error) {
		page.At.Begun = true
		_, err = scan(reply, &page.Took, &page.At.Left, &page.At.Last, &page.Read, &page.IDs)
		return page, err
	})
}

// Leases counts a topic's leases on a page of the pool. Newest is the newest token, the time of that reserve (Unix µs).
type Leases struct {
	Topic  string
	Count  int
	Newest int64
}

// FsckPool checks a page of the pool. With ids the page includes its IDs.
func (s *Store) FsckPool(at string, count int, repair, ids bool) *Call[PoolPage] {
	args := append(arguments(4, s.jobPool), at, count, mode(repair), idsOrNot(ids))
	return newCall(s, fsckPoolScript, args, func(reply any) (page PoolPage, err error) {
		var leases, faults []any
		_, err = scan(reply, &page.Took, &page.Next, &page.IDs, &leases, &faults)
		for len(leases) > 0 && err == nil {
			var l Leases
			leases, err = redis.Scan(leases, &l.Topic, &l.Count, &l.Newest)
			page.Leases = append(page.Leases, l)
		}
		if err == nil {
			page.Faults, err = readFaults(faults)
		}
		return page, err
	})
}

// PoolPage is a page of the pool.
type PoolPage struct {
	Scanned
	Leases []Leases
}

func idsOrNot(ids bool) string {
	if ids {
		return returnIDs
	}
	return ""
}

// FsckSet names the set that Store.FsckSet checks.
type FsckSet string

const (
	DeadSet      FsckSet = "dead" // a topic's
	SchedulesSet FsckSet = "schedules"
)

// FsckSet checks a page of the set. topic is "" unless the set belongs to a topic.
func (s *Store) FsckSet(set FsckSet, topic, at string, count int, repair, ids bool) *Call[Scanned] {
	args := append(arguments(6, s.jobPool), string(set), topic, at, count, mode(repair), idsOrNot(ids))
	return newCall(s, fsckSetScript, args, func(reply any) (page Scanned, err error) {
		var faults []any
		if _, err = scan(reply, &page.Took, &page.Next, &page.IDs, &faults); err == nil {
			page.Faults, err = readFaults(faults)
		}
		return page, err
	})
}

// FoundKey is a key returned by SCAN: its kind, and the rest of its name.
type FoundKey struct{ Kind, Rest string }

// FindKey returns the kind of a key of this partition, "" if Delayer has no such key. A key behind whose name nothing follows has its type as
// its kind, and its whole name as the rest.
func (k Keys) FindKey(name string) FoundKey {
	rest := strings.TrimPrefix(name, k.prefix)
	for _, key := range KeyTable {
		if of, is := strings.CutPrefix(rest, key.Name); is && key.Kind != "" {
			return FoundKey{key.Kind, of}
		}
		if rest == key.Name && key.Type != "channel" {
			return FoundKey{key.Type, rest}
		}
	}
	return FoundKey{"", rest}
}

// luaKinds returns the kinds of FoundKeys with their types, and where their names begin, as a Lua table.
func luaKinds() string {
	var table strings.Builder
	for _, key := range KeyTable {
		if key.Kind != "" {
			fmt.Fprintf(&table, "%s = {'%s', '%s'}, ", key.Kind, key.Type, key.Name)
		}
	}
	return "{" + table.String() + "zset = {'zset', ''}, hash = {'hash', ''}, string = {'string', ''}}"
}

// CheckedKeys is the result of FsckKeys. Candidates are IDs and topics of jobs that are not in the pool.
type CheckedKeys struct {
	Took       int // µs
	Candidates []string
	Faults     []Fault // Name is the key's index in the list
}

// FsckKeys checks some keys that SCAN has returned.
func (s *Store) FsckKeys(keys []FoundKey, repair bool) *Call[CheckedKeys] {
	args := append(arguments(1+2*len(keys), s.jobPool), mode(repair))
	for _, key := range keys {
		args = append(args, key.Kind, key.Rest)
	}
	return newCall(s, fsckKeysScript, args, func(reply any) (checked CheckedKeys, err error) {
		var faults []any
		if _, err = scan(reply, &checked.Took, &checked.Candidates, &faults); err != nil {
			return checked, err
		}
		for len(faults) > 0 && err == nil {
			var f Fault
			var place int
			if faults, err = redis.Scan(faults, &f.Kind, &place, &f.Repaired); err != nil || place < 3 || place/2 > len(keys) {
				return checked, errUnreadable
			}
			f.Name = keys[place/2-1].Rest
			checked.Faults = append(checked.Faults, f)
		}
		return checked, err
	})
}

// Lost is a job in no state. The expiry of its bucket and the fingerprint show whether the job has changed since.
type Lost struct {
	ID, Topic   string
	Expires     int64 // Unix ms; -1: never
	Fingerprint string
	Repaired    bool
}

// The modes of the fsck scripts: whether they repair, and return IDs.
const (
	repairFaults = "repair"
	returnIDs    = "ids"
)

// The actions on lost jobs.
const (
	LostLook    = "look"
	LostRequeue = "requeue"
	LostDrop    = "drop"
)

// LostPage lists the jobs that are lost.
type LostPage struct {
	Took int // µs
	Jobs []Lost
}

// FsckLost returns the jobs that are lost and, if they have fingerprints, unchanged. It applies the action to them.
func (s *Store) FsckLost(jobs []Lost, do string) *Call[LostPage] {
	args := append(arguments(1+3*len(jobs), s.jobPool), do)
	for _, j := range jobs {
		args = append(args, j.ID, j.Expires, j.Fingerprint)
	}
	return newCall(s, fsckLostScript, args, func(reply any) (page LostPage, err error) {
		rest, err := scan(reply, &page.Took)
		for len(rest) > 0 && err == nil {
			var j Lost
			rest, err = redis.Scan(rest, &j.ID, &j.Topic, &j.Expires, &j.Fingerprint, &j.Repaired)
			page.Jobs = append(page.Jobs, j)
		}
		return page, err
	})
}

// ReservedCount is the stored number of a topic's reserved jobs, and the number of leases found.
type ReservedCount struct {
	Topic, Kept string
	Leases      int
}

// Reserved returns the number without the mark of a limit.
func (c ReservedCount) Reserved() int {
	n, _ := redis.Int64([]byte(c.Kept), nil)
	marks := (n + limitMark/2) / limitMark
	if n < -limitMark/2 {
		marks = 0
	}
	return int(n - marks*limitMark)
}

// FsckReserved corrects these numbers unless they have changed since, and returns the topics it has corrected.
func (s *Store) FsckReserved(counts []ReservedCount) *Call[[]string] {
	args := arguments(3*len(counts), s.jobPool)
	for _, c := range counts {
		args = append(args, c.Topic, c.Kept, c.Leases)
	}
	return newCall(s, fsckReservedScript, args, func(reply any) ([]string, error) { return redis.Strings(reply, nil) })
}

// ReservedCounts reads a page of the numbers of reserved jobs. The first call starts at "0"; the last one returns "0".
func (s *Store) ReservedCounts(ctx context.Context, at string, count int) (numbers map[string]string, next string, err error) {
	page, err := redis.Values(s.command(ctx, "HSCAN", s.keys.Reserved(), at, "COUNT", count))
	if err != nil || len(page) != 2 {
		return nil, "0", err
	}
	next, _ = redis.String(page[0], nil)
	numbers, err = redis.StringMap(page[1], nil)
	return numbers, next, err
}

// ScanKeys returns a page of the node's keys with this prefix. The first call starts at "0"; the last one returns "0".
func (s *Store) ScanKeys(ctx context.Context, begins, at string, count int) (names []string, next string, err error) {
	escaped := strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`).Replace(begins)
	page, err := redis.Values(s.command(ctx, "SCAN", at, "MATCH", escaped+"*", "COUNT", count))
	if err != nil || len(page) != 2 {
		return nil, "0", err
	}
	next, _ = redis.String(page[0], nil)
	names, err = redis.Strings(page[1], nil)
	return names, next, err
}

// KeyCount returns the number of keys in the node's database.
func (s *Store) KeyCount(ctx context.Context) (int, error) {
	return redis.Int(s.command(ctx, "DBSIZE"))
}

// Entries returns the number of entries of a list or a sorted set, 0 for any other key.
func (s *Store) Entries(ctx context.Context, key string) int {
	if n, err := redis.Int(s.command(ctx, "ZCARD", key)); err == nil {
		return n
	}
	n, _ := redis.Int(s.command(ctx, "LLEN", key))
	return n
}
