package conformance

import (
	"errors"
	"reflect"
	"testing"
)

// expect fails the test on an error or if got differs from want; empty lists are equal.
func expect[T any](tb testing.TB, what string, got T, err error, want T) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
	g, w := reflect.ValueOf(got), reflect.ValueOf(want)
	if g.Kind() == reflect.Slice && g.Len()+w.Len() == 0 {
		return
	}
	if !reflect.DeepEqual(got, want) {
		tb.Fatalf("%s: got %v, want %v", what, got, want)
	}
}

func expectError(tb testing.TB, err, want error) {
	tb.Helper()
	if !errors.Is(err, want) {
		tb.Fatalf("got the error %v, want %v", err, want)
	}
}
