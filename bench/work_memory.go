package main

import (
	"context"
	"strings"
	"sync"
	"time"
)

func benchMemory(ctx context.Context, r *Run) Section {
	setting := func(bytes int) { r.Redis.do("CONFIG", "SET", "hash-max-listpack-value", bytes) }
	defer setting(64)
	var contenders []contender
	for _, m := range append([]maker{allPeers[0]}, others()...) {
		contenders = append(contenders, contender{name: m.name, run: func() (values []float64) {
			for _, c := range []struct{ size, listpack int }{{56, 64}, {97, 64}, {97, 1024}} {
				setting(c.listpack)
				values = append(values, r.memoryOf(ctx, m, c.size))
			}
			return values
		}})
	}
	return Section{
		Title: "Memory",
		Tables: []Table{{
			ID: "memory", Title: "Memory of a waiting job", Unit: "bytes",
			Columns: []Column{{Name: "body of 56 bytes"}, {Name: "body of 97 bytes"}, {Name: "97 bytes, hash-max-listpack-value 1024"}},
			Rows:    r.turns(1, contenders),
		}},
	}
}

// memoryOf returns the bytes of a waiting job with a body of that size.
func (r *Run) memoryOf(ctx context.Context, m maker, size int) float64 {
	r.Redis.clear()
	p := m.open(r)
	closed := sync.OnceFunc(p.Close)
	defer closed()
	memory := r.Redis.memory
	own, apart := p.(ownServer)
	if apart {
		memory = own.memory
	}
	before, due := memory(), time.Now().Add(time.Hour)
	crowd(32, r.memoryJobs, func(i int) error {
		text := body(int64(i))
		text = text[:len(text)-2] + strings.Repeat("x", size-len(text)) + text[len(text)-2:]
		return p.Push(ctx, int64(i), text, due)
	})
	if !apart {
		closed()
		time.Sleep(200 * time.Millisecond) // until Redis has closed the connections
	}
	return (memory() - before) / float64(r.memoryJobs)
}
