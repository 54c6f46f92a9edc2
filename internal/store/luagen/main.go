// Command luagen puts the Lua scripts together from the sources in internal/store/lua. It writes one file for each script into
// internal/store/lua/gen, where Redis's errors and people can be pointed to a line. Run it by go generate ./internal/store.
package main

import (
	"flag"
	"io/fs"
	"log"
	"os"
	"path/filepath"

	"github.com/mix-basic/delayer/internal/store"
)

func main() {
	log.SetFlags(0)
	from := flag.String("from", "lua", "the folder with the sources")
	to := flag.String("to", "lua/gen", "the folder to write to; other files there are removed")
	flag.Parse()
	files, err := generate(os.DirFS(*from))
	if err == nil {
		err = write(*to, files)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// generate returns the texts of all scripts in a folder of sources, by file name.
func generate(sources fs.FS) (map[string]string, error) {
	names, err := fs.Glob(sources, "*.lua")
	if err != nil {
		return nil, err
	}
	g, files := newIncluder(sources, store.LuaParts()), map[string]string{}
	for _, file := range names {
		files[file] = g.script(file)
	}
	return files, g.err()
}

// write makes the files the only ones of a folder.
func write(folder string, files map[string]string) error {
	if err := os.RemoveAll(folder); err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}
