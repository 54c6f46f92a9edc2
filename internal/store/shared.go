package store

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

const (
	// DefaultLifetime is the lifetime of a ready job, unless its producer sets another.
	DefaultLifetime = 7 * 24 * time.Hour
	// DefaultLease is the length of a lease if neither consumer nor producer sets one.
	DefaultLease = 30 * time.Second
	// ShortestLease is the shortest lease that a producer, or a worker's options, can set: a lease of less than some round trips would
	// end before it can be used or extended.
	ShortestLease = 100 * time.Millisecond
	// MaxLease is the longest lease.
	MaxLease = 24 * time.Hour
	// RetryAfter is the delay of a job that can't be moved, or can't become a dead letter.
	RetryAfter = 5 * time.Second
	// MaxGroup is the maximum length of a group's body, in bytes.
	MaxGroup = 1 << 20

	// limitMark is added to the number of a topic's reserved jobs if the topic has a limit, and twice if these jobs have slots.
	limitMark = 1 << 40
	// followerMark begins the fields lease and options of a bucket whose job has a follower.
	followerMark = '+'
)

// The states of jobs in arguments and replies of scripts.
const (
	stateWaiting  = "waiting"
	stateReady    = "ready"
	stateReserved = "reserved"
	stateDead     = "dead"
)

// Modes of scripts.
const (
	pushAll    = "all"       // a push: stores all jobs, or none
	refund     = "refund"    // a retry: this attempt does not count
	pauseTopic = "pause"     // by an operator
	newPause   = "new pause" // by an operator, who replaces no other's
	throttle   = "throttle"  // by a consumer
	lookOnly   = "look"      // a restore: changes nothing
)

// The first words of policies that have an argument.
const (
	oncePolicy     = "once"
	debouncePolicy = "debounce"
)

// Replies of scripts for a job that is not simply done; an error is returned as a text. See errorsAt and, for groups, joined.
const (
	toldExists = iota
	toldReplaced
	toldKept
	toldFollows
	toldReused
	toldCreated
	toldAdded
	toldLater
	toldNotFound
	toldLeaseLost
	toldExhausted
	toldIsReserved
	toldWasReserved
	toldWasReady
	toldWasDead
)

// LuaParts returns the parts that Go writes, which scripts need not include: keys has the names of keys and channels, go the other
// constants that scripts and Go share. See luagen.
func LuaParts() map[string]string {
	var constants strings.Builder
	for _, c := range slices.Concat(luaBounds(), luaTexts()) {
		fmt.Fprintf(&constants, "local %s = %v\n", c.name, c.value)
	}
	return map[string]string{"keys": luaKeys(), "go": constants.String()}
}

func luaKeys() string {
	var k Keys
	var keys strings.Builder
	// Except in a few scripts the first key is the job pool. (Pattern matching would take five times as long.)
	fmt.Fprintf(&keys, "local pool = KEYS[1]\n-- include: pool\nlocal prefix = string.sub(pool, -%d) == '%s' and string.sub(pool, 1, -%d)", len(k.JobPool()), k.JobPool(), len(k.JobPool())+1)
	fmt.Fprintf(&keys, " or string.match(pool, '^(.*)%s$') or string.match(pool, '^(.*)%s$')", k.DeadTopics(), k.Servers())
	for _, key := range KeyTable {
		if key.lua != "" {
			fmt.Fprintf(&keys, "\n-- include: prefix\nlocal %s = prefix .. '%s'", key.lua, key.Name)
		}
	}
	return keys.String()
}

// luaConstant is a constant of Lua with its value in Lua.
type luaConstant struct {
	name  string
	value any
}

// luaBounds are times, in milliseconds unless noted, sizes, and marks.
func luaBounds() []luaConstant {
	return []luaConstant{
		{"ANNOUNCED_WITHIN", AnnouncedWithin.Milliseconds()},
		{"WAITING_FOR", WaitingFor.Milliseconds()},
		{"DEFAULT_LIFETIME", DefaultLifetime.Milliseconds()},
		{"DEFAULT_OPTIONS", fmt.Sprintf("'0 0 %d'", DefaultLifetime.Milliseconds())},
		{"DEFAULT_LEASE", DefaultLease.Milliseconds()},
		{"SHORTEST_LEASE", ShortestLease.Milliseconds()},
		{"MAX_LEASE", MaxLease.Milliseconds()},
		{"RETRY_AFTER", RetryAfter.Milliseconds()},
		{"STALE_AFTER", staleAfter.Milliseconds()},
		{"HISTORY_STEP", historyStep.Milliseconds()},
		{"HISTORY_SLOTS", historySlots},
		{"SOON", int(soon.Seconds())},
		{"LATENESS_BOUNDS", latenessBounds()},
		{"KEY_KINDS", luaKinds()},
		{"MAX_GROUP", MaxGroup},
		{"LIMIT_MARK", limitMark},
		{"HAS_LIMIT", limitMark / 2},     // above all numbers without the mark: they may be below 0, too
		{"HAS_SLOTS", limitMark / 2 * 3}, // above all numbers with one mark
		{"FOLLOWER_MARK", quoted(string(followerMark))},
		{"FOLLOWER_BYTE", followerMark},
	}
}

// luaTexts are policies, modes and states, and the replies of push and settle.
func luaTexts() []luaConstant {
	return []luaConstant{
		{"SCHEDULE_TOPIC", quoted(ScheduleTopic)},
		{"DEFAULT", quoted(Default)},
		{"REPLACE", quoted(Replace)},
		{"REFUSE", quoted(Refuse)},
		{"EARLIER", quoted(KeepEarlier)},
		{"LATER_DUE", quoted(KeepLater)},
		{"FOLLOW", quoted(Follow)},
		{"ONCE_FORM", quoted("^" + oncePolicy + ` (%d+) ?(.*)$`)}, // in ms, and the fingerprint
		{"DEBOUNCE_FORM", quoted("^" + debouncePolicy + ` (%d+)$`)},
		{"ALL_OR_NONE", quoted(pushAll)},
		{"LOOK", quoted(lookOnly)},
		{"SCHEDULE", quoted(RecordSchedule)},
		{"ONCE", quoted(RecordOnce)},
		{"REPAIR", quoted(repairFaults)},
		{"RETURN_IDS", quoted(returnIDs)},
		{"LOST_LOOK", quoted(LostLook)},
		{"LOST_REQUEUE", quoted(LostRequeue)},
		{"LOST_DROP", quoted(LostDrop)},
		{"REFUND", quoted(refund)},
		{"PAUSE", quoted(pauseTopic)},
		{"NEW_PAUSE", quoted(newPause)},
		{"THROTTLE", quoted(throttle)},
		{"WAITING", quoted(stateWaiting)},
		{"READY", quoted(stateReady)},
		{"RESERVED", quoted(stateReserved)},
		{"DEAD", quoted(stateDead)},
		{"OVERLAP_ALLOW", quoted(OverlapAllow)},
		{"OVERLAP_FOLLOW", quoted(OverlapFollow)},
		{"RAN", quoted(OccurrenceRan)},
		{"RUN_NOW", quoted(OccurrenceRunNow)},
		{"OVERLAPPED", quoted(OccurrenceOverlapped)},
		{"ALREADY_EXISTS", toldExists},
		{"REPLACED", toldReplaced},
		{"KEPT_DUE", toldKept},
		{"FOLLOWS", toldFollows},
		{"REUSED", toldReused},
		{"CREATED", toldCreated},
		{"ADDED", toldAdded},
		{"LATER", toldLater},
		{"NOT_FOUND", toldNotFound},
		{"LEASE_LOST", toldLeaseLost},
		{"EXHAUSTED", toldExhausted},
		{"IS_RESERVED", toldIsReserved},
		{"WAS_RESERVED", toldWasReserved},
		{"WAS_READY", toldWasReady},
		{"WAS_DEAD", toldWasDead},
	}
}

// quoted quotes a text for Lua.
func quoted[T ~string](text T) string { return "'" + string(text) + "'" }

// latenessBounds returns LatenessBounds as a Lua table, in seconds. The last bucket's bound is never reached.
func latenessBounds() string {
	var table strings.Builder
	for _, bound := range LatenessBounds {
		fmt.Fprintf(&table, "%v, ", bound.Seconds())
	}
	return "{" + table.String() + "1 / 0}"
}
