package main

import (
	"io/fs"
	"maps"
	"os"
	"slices"
	"testing"
)

// TestGenerated fails when lua/gen is not what go generate makes of the sources.
func TestGenerated(t *testing.T) {
	want, err := generate(os.DirFS("../lua"))
	if err != nil {
		t.Fatal(err)
	}
	gen := os.DirFS("../lua/gen")
	got, err := fs.Glob(gen, "*")
	if err != nil {
		t.Fatal(err)
	}
	if names := slices.Sorted(maps.Keys(want)); !slices.Equal(got, names) {
		t.Errorf("lua/gen has %q, want %q: run go generate ./internal/store", got, names)
	}
	for name, text := range want {
		if file, err := fs.ReadFile(gen, name); err != nil || string(file) != text {
			t.Errorf("lua/gen/%s is not what the sources make: run go generate ./internal/store", name)
		}
	}
}
