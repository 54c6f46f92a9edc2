package store

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// Peek returns the first due job of each partition in one call, whatever is in the pools. An error of one partition does not affect the
// others.
func TestPeek(t *testing.T) {
	f := redistest.Start(t)
	p := partitions(f.Pool(), 6)
	for i, pool := range [][]any{
		{"5.25", "b", "1234567890.123457", "a"},
		{},
		{"-inf", "ever"},
		{"+inf", "never"},
		{"7", ""},
	} {
		if len(pool) > 0 {
			f.Do("ZADD", append([]any{p[i].Keys().JobPool()}, pool...)...)
		}
	}
	f.Do("SET", p[5].Keys().JobPool(), "text")
	before := f.Clock()
	got, err := Peek(t.Context(), p, true)
	check(t, err)
	if now := float64(got.Now.UnixMicro()) / 1e6; now < before || now > f.Clock() {
		t.Errorf("now %v, want Redis's time", got.Now)
	}
	if err := got.First[5].Err; KindOf(err) != WrongType {
		t.Errorf("of a text: %v", err)
	}
	want := []First{{ID: "b", Due: time.UnixMicro(5250000)}, {}, {ID: "ever", Due: time.UnixMicro(0)}, {ID: "never", Due: time.Unix(1e11, 0)}, {Due: time.Unix(7, 0)}}
	if !reflect.DeepEqual(got.First[:5], want) {
		t.Errorf("got %v, want %v", got.First[:5], want)
	}
	f.Do("ZADD", p[1].Keys().JobPool(), "1234567890.123457", "a")
	if got, err = Peek(t.Context(), p[1:2], false); err != nil || !got.Now.IsZero() || got.First[0].Due != time.UnixMicro(1234567890123457) {
		t.Errorf("got %v, %v", got, err)
	}
}

// An answer from a server that takes no writes is an error.
func TestPeekAtAReplica(t *testing.T) {
	f := redistest.Start(t)
	f.Do("REPLICAOF", "127.0.0.1", "1")
	if _, err := Peek(t.Context(), []*Store{New(f.Pool(), DefaultPrefix)}, true); !Temporary(err) || err == nil {
		t.Error(fmt.Sprint("error ", err, ", want READONLY"))
	}
	f.Do("REPLICAOF", "NO", "ONE")
}
