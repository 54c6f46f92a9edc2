package delayerotel_test

import (
	"os/exec"
	"strings"
	"testing"
)

// A program that imports this package links the API of OpenTelemetry, but not its SDK.
func TestImports(t *testing.T) {
	list, err := exec.Command("go", "list", "-deps", ".").Output()
	check(t, err)
	if strings.Contains(string(list), "go.opentelemetry.io/otel/sdk") {
		t.Errorf("links the SDK:\n%s", list)
	}
}
