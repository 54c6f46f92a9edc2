//go:build !windows

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mix-basic/delayer/internal/docs"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// In each installed language, the documented producer pushes a job, and its consumer handles and acknowledges it. A test
// of internal/web/api/openapitest runs the TypeScript samples.
func TestSamplesInOtherLanguages(t *testing.T) {
	redistest.Long(t)
	for _, language := range []struct{ name, program, file string }{
		{"python", "python3", "sample%d.py"},
		{"java", "java", "Sample%d.java"},
	} {
		t.Run(language.name, func(t *testing.T) {
			if _, err := exec.LookPath(language.program); err != nil {
				t.Skip(language.program + " is not installed")
			}
			server := newSite(t, redistest.Start(t).Addr, "[http]", "listen = 127.0.0.1:0")
			changes := strings.NewReplacer("http://127.0.0.1:9277", urlOf(server.start(t)), `"30m"`, `"100ms"`)
			var programs []*process
			for i, sample := range docs.Samples(read(t, "../../docs/languages.md")) {
				if sample.Language == language.name {
					file := filepath.Join(server.dir, fmt.Sprintf(language.file, i))
					write(t, file, changes.Replace(sample.Text))
					programs = append(programs, startCommand(t, server.dir, os.Environ(), exec.Command(language.program, file)))
				}
			}
			if len(programs) != 2 {
				t.Fatalf("%d programs, want a producer and a consumer", len(programs))
			}
			if code := programs[0].wait(); code != 0 {
				t.Fatalf("the producer ends with %d: %s%s", code, programs[0].stdout, programs[0].stderr)
			}
			programs[1].expect(programs[1].stdout, "1001")
			server.acknowledged(t, "close-order-1001")
		})
	}
}
