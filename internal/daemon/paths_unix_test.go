//go:build !windows

package daemon

import (
	"os"
	"testing"

	"github.com/mix-basic/delayer/config"
)

// Root uses the original's paths.
func TestShippedPathsForRoot(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	d := config.Default().Delayer
	if notes := ownPaths(&d); notes != nil || d != config.Default().Delayer || d.PID != "/var/run/delayer.pid" {
		t.Errorf("%v, %+v", notes, d)
	}
}
