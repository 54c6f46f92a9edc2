package main

import (
	"fmt"
	"time"
)

// failure is what check panics with.
type failure struct{ error }

// check and must end a measurement if there is an error: it has dozens of calls that may fail, and then it can only fail
// as well, like a test. They are for the goroutine that attempt runs in; other goroutines return their errors.
func check(err error) {
	if err != nil {
		panic(failure{err})
	}
}

func must[T any](value T, err error) T {
	check(err)
	return value
}

// attempt runs f and returns the error that ended it.
func attempt(f func()) (err error) {
	defer func() {
		switch v := recover().(type) {
		case nil:
		case failure:
			err = v.error
		default:
			panic(v)
		}
	}()
	f()
	return nil
}

// await polls until nothing is left. what says what the number is that left returns.
func await(limit, every time.Duration, what string, left func() int) {
	for deadline := time.Now().Add(limit); ; time.Sleep(every) {
		n := left()
		switch {
		case n <= 0:
			return
		case time.Now().After(deadline):
			check(fmt.Errorf("after %v %d %s", limit, n, what))
		}
	}
}
