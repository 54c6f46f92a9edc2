package dashboard

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"net/http"
	"strings"
)

//go:embed static
var staticFiles embed.FS

// stamp changes with the static files, so that browsers can cache them until then.
var stamp = func() string {
	all := sha256.New()
	fs.WalkDir(staticFiles, "static", func(name string, _ fs.DirEntry, _ error) error {
		content, _ := staticFiles.ReadFile(name) // nothing of a directory
		all.Write(content)
		return nil
	})
	return hex.EncodeToString(all.Sum(nil)[:8])
}()

func staticURL(name string) string { return "ui/static/" + name + "?v=" + stamp }

// static serves the files. Requests with the current stamp may be cached.
var static = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Path, "/ui/")
	if _, err := staticFiles.ReadFile(name); err != nil { // a directory, too
		http.NotFound(w, r)
		return
	}
	if r.URL.Query().Get("v") == stamp {
		w.Header().Set("Cache-Control", "private, max-age=31536000, immutable")
	}
	http.ServeFileFS(w, r, staticFiles, name)
})
