package store

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// waitedFor returns topics without a limit.
func waitedFor(topics ...string) (all []WaitedFor) {
	for _, topic := range topics {
		all = append(all, WaitedFor{Topic: topic})
	}
	return all
}

// idsOf returns the IDs of the waiters.
func idsOf(waiters [][]Waiter) (all [][]string) {
	for _, list := range waiters {
		ids := []string{}
		for _, w := range list {
			ids = append(ids, w.ID)
		}
		all = append(all, ids)
	}
	return all
}

// Waiters returns the live waiters of each topic, up to a maximum, and for a topic with a limit also its throttled clients.
func TestWaiters(t *testing.T) {
	t.Parallel()
	b, server := onRedis(t, alone)
	b.alive(t, "one", "two")
	b.stand(t, "t", "dead", "two", "one")
	b.stand(t, "u", "one")
	b.stand(t, "dead", "dead")
	for n := range maxWaiters - 1 {
		b.do(t, "ZADD", b.keys.Waiters("many"), n, n)
	}
	b.do(t, "ZADD", b.keys.Waiters("many"), maxWaiters, "one", maxWaiters+1, "two")
	b.do(t, "ZADD", b.keys.ThrottledWaiters("nobody"), 1700000000123456, "two", 3, "dead")
	topics := waitedFor("nobody", "t", "dead", "many", "u")
	got, err := b.Store.Waiters(t.Context(), topics)
	if want := [][]string{{}, {"two", "one"}, {}, {"one"}, {"one"}}; err != nil || !slices.EqualFunc(idsOf(got), want, slices.Equal) {
		t.Errorf("got %v, %v", got, err)
	}
	got, err = b.Store.Waiters(t.Context(), []WaitedFor{{"nobody", true}, {"u", true}})
	if want := []Waiter{{"two", time.UnixMicro(1700000000123456)}}; err != nil || !slices.Equal(got[0], want) || len(got[1]) != 1 {
		t.Errorf("held back are %v, %v", got, err)
	}
	before := b.Connections()
	for range 20 {
		b.Store.Waiters(t.Context(), topics)
		b.Served(t.Context())
	}
	if n := b.Connections() - before; n > 1 {
		t.Errorf("%d connections were opened, as none was given back", n)
	}
	b.SetUser("~* &* +@all -pubsub")
	if got, err := b.user().Store.Waiters(t.Context(), topics); !Refused(err) {
		t.Errorf("who may not know gets %v, %v", got, err)
	}
	b.SetUser("~* &* +@all -zrange")
	if got, err := b.user().Store.Waiters(t.Context(), topics); !Refused(err) {
		t.Errorf("who may not know who waits gets %v, %v", got, err)
	}
	b.looked(t, Check{Topics: []string{"t"}})
	server.Kill()
	if got, err := b.Store.Waiters(t.Context(), topics); err == nil || errors.As(err, new(redis.Error)) {
		t.Errorf("a Redis that is away has %v, %v", got, err)
	}
}

// A waiter can register its program with the permissions of consumers and workers. With fewer permissions it writes nothing that would
// not expire.
func TestRegister(t *testing.T) {
	t.Parallel()
	b, _ := onRedis(t, alone)
	me := Program{Host: "host one", Name: "shop", PID: 42}
	for _, c := range []struct {
		rights string
		there  bool
	}{
		{redistest.Rights(t, "consumer"), true},
		{redistest.Rights(t, "worker"), true},
		{"~* &* +@all -lpush", false},
		{"~* &* +@all -pexpire", false},
		{"~delayer:job* ~delayer:w* +@all", false},
	} {
		t.Run(c.rights, func(t *testing.T) {
			b.seed(t)
			b.SetUser(c.rights)
			user := b.user().Store
			for range 2 {
				Register(t.Context(), []*Store{user}, "id", me)
			}
			found, err := b.Store.Programs(t.Context(), []string{"other", "id"})
			check(t, err)
			ttl, _ := redis.Int64(b.do(t, "PTTL", "delayer:client:id"), nil)
			entries, _ := redis.Int(b.do(t, "LLEN", "delayer:client:id"), nil)
			switch {
			case !c.there && (len(found) > 0 || ttl != -2):
				t.Errorf("found %v, which lasts for %d ms", found, ttl)
			case c.there && (len(found) != 1 || found["id"] != me || ttl <= 0 || ttl > WaitingFor.Milliseconds() || entries != 3):
				t.Errorf("found %v, which lasts for %d ms: %d", found, ttl, entries)
			}
		})
	}
	// Entries written by other programs are skipped without an error.
	b.do(t, "RPUSH", "delayer:client:short", "host")
	b.do(t, "RPUSH", "delayer:client:odd", "host\xff", "many", "name")
	b.do(t, "SET", "delayer:client:text", "host")
	found, err := b.Store.Programs(t.Context(), []string{"short", "odd", "text"})
	if want := (map[string]Program{"odd": {Host: "host?", Name: "name"}}); err != nil || fmt.Sprint(found) != fmt.Sprint(want) {
		t.Errorf("found %v, %v", found, err)
	}
	b.Unregister(t.Context(), "odd", nil, true)
	if b.do(t, "EXISTS", "delayer:client:odd") != int64(0) {
		t.Error("it stays when its client ends")
	}
}
