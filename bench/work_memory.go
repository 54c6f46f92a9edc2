package main

import (
	"context"
	"strings"
	"sync"
	"time"
)

func benchMemory(ctx context.Context, r *Run) (Section, error) {
	conn := r.Redis.Pool.Get()
	defer conn.Close()
	setting := func(bytes int) error {
		_, err := conn.Do("CONFIG", "SET", "hash-max-listpack-value", bytes)
		return err
	}
	var contenders []contender
	for _, m := range append([]maker{allPeers[0]}, r.others()...) {
		contenders = append(contenders, contender{name: m.name, run: func() ([]float64, error) {
			var values []float64
			for _, c := range []struct{ size, listpack int }{{56, 64}, {97, 64}, {97, 1024}} {
				if err := setting(c.listpack); err != nil {
					return nil, err
				}
				bytes, err := r.memoryOf(ctx, m, c.size)
				if err != nil {
					return nil, err
				}
				values = append(values, bytes)
			}
			return values, nil
		}})
	}
	results := r.turns(1, contenders)
	return Section{
		Title: "Memory",
		Tables: []Table{{
			ID: "memory", Title: "Memory of a waiting job", Unit: "bytes", Chart: bars,
			Columns: []Column{{Name: "body of 56 bytes"}, {Name: "body of 97 bytes"}, {Name: "97 bytes, hash-max-listpack-value 1024"}},
			Rows:    rows(contenders, results),
		}},
	}, setting(64)
}

// memoryOf returns the bytes of a waiting job with a body of that size.
func (r *Run) memoryOf(ctx context.Context, m maker, size int) (float64, error) {
	if err := r.Redis.clear(); err != nil {
		return 0, err
	}
	p, err := m.open(r)
	if err != nil {
		return 0, err
	}
	closed := sync.OnceValue(p.Close)
	defer closed()
	memory := r.Redis.memory
	own, apart := p.(ownServer)
	if apart {
		memory = own.memory
	}
	before, err := memory()
	if err != nil {
		return 0, err
	}
	due := time.Now().Add(time.Hour)
	err = crowd(32, r.memoryJobs, func(i int) error {
		text := body(int64(i))
		text = text[:len(text)-2] + strings.Repeat("x", size-len(text)) + text[len(text)-2:]
		return p.Push(ctx, int64(i), text, due)
	})
	if err == nil && !apart {
		err = closed()
		time.Sleep(200 * time.Millisecond) // until Redis has closed the connections
	}
	if err != nil {
		return 0, err
	}
	after, err := memory()
	return (after - before) / float64(r.memoryJobs), err
}
