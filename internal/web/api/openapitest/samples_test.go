package openapitest

import (
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mix-basic/delayer/internal/docs"
)

// runsTypeScriptSamples compiles the TypeScript of docs/languages.md strictly, in a folder with the compiler. The
// consumer must handle and acknowledge the producer's job.
func runsTypeScriptSamples(t *testing.T, folder string) {
	t.Helper()
	for _, page := range []string{"languages.md", "languages.zh-CN.md"} {
		text, err := os.ReadFile("../../../../docs/" + page)
		check(t, err)
		p := newProber(t)
		site := httptest.NewServer(p.usual())
		t.Cleanup(site.Close)
		changes := strings.NewReplacer("http://127.0.0.1:9277", site.URL, `"30m"`, "0")
		var files []string
		for _, sample := range docs.Samples(string(text)) {
			if sample.Language == "ts" {
				files = append(files, fmt.Sprintf("sample%d", len(files)))
				file := filepath.Join(folder, files[len(files)-1]+".ts")
				check(t, os.WriteFile(file, []byte(changes.Replace(sample.Text)+"\nexport {};\n"), 0o600))
			}
		}
		if len(files) != 2 {
			t.Fatalf("%s has %d samples, want a producer and a consumer", page, len(files))
		}
		write(t, filepath.Join(folder, "tsconfig.samples.json"), map[string]any{"extends": "./tsconfig.json", "files": []string{files[0] + ".ts", files[1] + ".ts"}})
		command(t, folder, "node_modules/.bin/tsc", "-p", "tsconfig.samples.json")
		command(t, folder, "node", filepath.Join("out", files[0]+".js"))
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		var out strings.Builder
		consumer := exec.CommandContext(ctx, "node", filepath.Join(folder, "out", files[1]+".js"))
		consumer.Stdout, consumer.Stderr = &out, &out
		check(t, consumer.Start())
		for {
			_, err := p.Get(ctx, "close-order-1001")
			if err != nil {
				if ctx.Err() != nil {
					t.Errorf("%s: the job was not acknowledged: %v", page, err)
				}
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		stop()
		consumer.Wait()
		if !strings.Contains(out.String(), "closing order 1001") {
			t.Errorf("%s: the consumer prints %q", page, out.String())
		}
	}
}
