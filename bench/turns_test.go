package main

import (
	"errors"
	"fmt"
	"os/exec"
	"reflect"
	"strings"
	"testing"
)

func TestTurns(t *testing.T) {
	var order []string
	ok := func(name string, repeats int) contender {
		return contender{name: name, repeats: repeats, run: func() []float64 {
			order = append(order, name)
			return []float64{float64(len(order))}
		}}
	}
	broken := func(name string, err error) contender {
		return contender{name: name, run: func() []float64 {
			order = append(order, name)
			check(err)
			return nil
		}}
	}
	wrong := errors.New("a job came twice")
	r := &Run{}
	results := r.turns(2, []contender{
		ok("a", 0), ok("slow", 1), broken("broken", wrong), broken("absent", fmt.Errorf("start: %w", exec.ErrNotFound)),
	})

	// The second round starts with the second contender.
	if got, want := strings.Join(order, " "), "a slow broken absent a"; got != want {
		t.Errorf("run were %s, want %s", got, want)
	}
	if want := (Rows{{"a", []Sample{{1, 5}}}, {"slow", []Sample{{2}}}}); !reflect.DeepEqual(results, want) {
		t.Errorf("got %v, want %v", results, want)
	}
	// A missing program is not a failure; anything else is.
	if len(r.failures) != 1 || !errors.Is(r.failures[0], wrong) || !strings.HasPrefix(r.failures[0].Error(), "broken: ") {
		t.Errorf("failures: %v", r.failures)
	}
	if want := []string{"broken failed: a job came twice", "absent is left out, as it is not installed here."}; !reflect.DeepEqual(r.notes, want) {
		t.Errorf("notes: %q", r.notes)
	}
}
