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

// stamps are hashes of the static files, so that browsers can cache them until they change.
var stamps = func() map[string]string {
	hashes := map[string]string{}
	err := fs.WalkDir(staticFiles, "static", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := staticFiles.ReadFile(name)
		sum := sha256.Sum256(content)
		hashes[name] = hex.EncodeToString(sum[:8])
		return err
	})
	if err != nil {
		panic(err)
	}
	return hashes
}()

func staticURL(name string) string {
	name = "static/" + name
	return "/ui/" + name + "?v=" + stamps[name]
}

// static serves the files. Requests with the right hash may be cached.
var static = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Path, "/ui/")
	stamp, ok := stamps[name]
	if !ok {
		http.NotFound(w, r)
		return
	}
	if r.URL.Query().Get("v") == stamp {
		w.Header().Set("Cache-Control", "private, max-age=31536000, immutable")
	}
	http.ServeFileFS(w, r, staticFiles, name)
})
