package server

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/mix-basic/delayer/internal/store"
)

// Exported types are documented here with their fields, and not by reference to an internal package.
func TestExportedTypesAreOurs(t *testing.T) {
	for _, kind := range []reflect.Type{reflect.TypeFor[Options](), reflect.TypeFor[Moved](), reflect.TypeFor[Lateness](), reflect.TypeFor[Server](), reflect.TypeFor[Observer]()} {
		if strings.Contains(kind.PkgPath(), "/internal/") {
			t.Errorf("%s is of %s", kind.Name(), kind.PkgPath())
		}
		for i := 0; kind.Kind() == reflect.Struct && i < kind.NumField(); i++ {
			if f := kind.Field(i); f.IsExported() && strings.Contains(f.Type.PkgPath(), "/internal/") {
				t.Errorf("%s.%s is of %s", kind.Name(), f.Name, f.Type.PkgPath())
			}
		}
	}
}

// A Lateness has the same numbers as the one it was made from.
func TestLateness(t *testing.T) {
	inside := store.Lateness{Sum: 1.5}
	for i := range inside.Counts {
		inside.Counts[i] = int64(i + 1)
	}
	l := Lateness(inside)
	if l.Jobs() != inside.Jobs() || l.Plus(l) != Lateness(inside.Plus(inside)) {
		t.Errorf("%d jobs, twice is %+v", l.Jobs(), l.Plus(l))
	}
	for _, q := range []float64{0, 0.3, 0.99, 1} {
		if l.Quantile(q) != inside.Quantile(q) {
			t.Errorf("quantile %v is %v", q, l.Quantile(q))
		}
	}
	if (Lateness{}).Quantile(1) != 0 || LatenessBounds[0] != time.Millisecond || len(l.Counts) != len(LatenessBounds)+1 {
		t.Error("the zero value or the bounds are wrong")
	}
}
