package main

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/mix-basic/delayer/config"
	"github.com/mix-basic/delayer/logger"
)

// The front is reached by the name that it listens on, and by those of the configuration.
func TestFrontHosts(t *testing.T) {
	for listen, want := range map[string][]string{
		"jobs.example.com:9277": {"jobs.example.com", "a", "b"},
		"10.0.0.7:9277":         {"10.0.0.7", "a", "b"},
		"[::1]:9277":            {"::1", "a", "b"},
		":9277":                 {"a", "b"},
		"":                      {"a", "b"},
	} {
		if got := webOptions(config.HTTP{Listen: listen, Hosts: []string{"a", "b"}}, nil).Hosts; !reflect.DeepEqual(got, want) {
			t.Errorf("listen = %s: %q, want %q", listen, got, want)
		}
	}
}

// While Redis is away, thousands of requests a second may fail: the log gets one line.
func TestFailuresOfRequestsAreOneLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "error.log")
	log, err := logger.Open(logger.Options{ErrorLog: path})
	if err != nil {
		t.Fatal(err)
	}
	failed := logFailures(log)
	for range 100 {
		failed(errors.New("push: connection refused"))
	}
	log.Close()
	content, err := os.ReadFile(path)
	if err != nil || strings.Count(string(content), "\n") != 1 || !strings.Contains(string(content), "HTTP front: a request failed: push: connection refused") {
		t.Errorf("%v, error log:\n%s", err, content)
	}
}
