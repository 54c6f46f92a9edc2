//go:build !windows

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// In each installed language, the example of a producer pushes a job, and that of a consumer handles and acknowledges it. A test
// of internal/web/api/openapitest runs those in TypeScript.
func TestSamplesInOtherLanguages(t *testing.T) {
	redistest.Long(t)
	for _, language := range []struct{ name, program, producer, consumer string }{
		{"python", "python3", "producer.py", "consumer.py"},
		{"java", "java", "Producer.java", "Consumer.java"},
	} {
		t.Run(language.name, func(t *testing.T) {
			if _, err := exec.LookPath(language.program); err != nil {
				t.Skip(language.program + " is not installed")
			}
			server := newSite(t, redistest.Start(t).Addr, "[http]", "listen = 127.0.0.1:0")
			changes := strings.NewReplacer("http://127.0.0.1:9277", urlOf(server.start(t)), `"30m"`, `"100ms"`)
			var programs []*process
			for _, name := range []string{language.producer, language.consumer} {
				file := filepath.Join(server.dir, name)
				write(t, file, changes.Replace(read(t, "../../examples/"+language.name+"/"+name)))
				programs = append(programs, startCommand(t, server.dir, os.Environ(), exec.Command(language.program, file)))
			}
			if code := programs[0].wait(); code != 0 {
				t.Fatalf("the producer ends with %d: %s%s", code, programs[0].stdout, programs[0].stderr)
			}
			programs[1].expect(programs[1].stdout, "1001")
			server.acknowledged(t, "close-order-1001")
		})
	}
}
