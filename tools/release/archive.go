package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// part is a file in an archive.
type part struct {
	name string // path within the archive, with slashes; a folder's ends with one
	mode fs.FileMode
	data []byte
}

// documents returns the files of the sources that archives have besides the daemon, in a fixed order.
func documents(source string) (parts []part, err error) {
	files := []string{"delayer.conf", "README.md", "README.zh-CN.md", "LICENSE", "CHANGELOG.md", "CHANGELOG.zh-CN.md", "ARCHITECTURE.md", "ARCHITECTURE.zh-CN.md",
		"CONTRIBUTING.md", "CONTRIBUTING.zh-CN.md", "SECURITY.md", "SECURITY.zh-CN.md",
		// and what the documents link to
		"bench/tables.md", "bench/targets.md", "bench/targets.zh-CN.md", "bench/nodes.md", "bench/results.json", "client/testdata/cuts.md",
		"client/testdata/schedule_cuts.md", "internal/store/keys.md", "internal/testing/redistest/promises.txt"}
	root := os.DirFS(source)
	for _, folder := range []string{"docs", "examples"} {
		err = errors.Join(err, fs.WalkDir(root, folder, func(path string, entry fs.DirEntry, err error) error {
			if err == nil && !entry.IsDir() {
				files = append(files, path)
			}
			return err
		}))
	}
	for _, file := range files {
		data, readErr := fs.ReadFile(root, file)
		err = errors.Join(err, readErr)
		parts = append(parts, part{file, 0o644, data})
	}
	return parts, err
}

// archive writes a platform's archive: one folder, with the daemon first.
func (b *builder) archive(p platform, binary []byte, documents, generated []part) error {
	name := fmt.Sprintf("delayer-%s-%s-%s", b.version, p.os, p.arch)
	daemon, suffix, pack := "delayer", ".tar.gz", writeTarGz
	if p.os == "windows" {
		daemon, suffix, pack = "delayer.exe", ".zip", writeZip
	}
	parts := slices.Concat([]part{{daemon, 0o755, binary}}, documents, generated)
	for i := range parts {
		parts[i].name = name + "/" + parts[i].name
	}
	var archive bytes.Buffer
	if err := pack(&archive, parts, b.time); err != nil {
		return err
	}
	return b.write(name+suffix, archive.Bytes())
}

func writeTarGz(w io.Writer, parts []part, at time.Time) error {
	z := gzip.NewWriter(w)
	return errors.Join(writeTar(z, parts, at), z.Close())
}

func writeTar(w io.Writer, parts []part, at time.Time) error {
	t := tar.NewWriter(w)
	for _, p := range parts {
		header := &tar.Header{Name: p.name, Mode: int64(p.mode), Size: int64(len(p.data)), ModTime: at, Format: tar.FormatPAX}
		if err := t.WriteHeader(header); err != nil {
			return err
		}
		if _, err := t.Write(p.data); err != nil {
			return err
		}
	}
	return t.Close()
}

func writeZip(w io.Writer, parts []part, at time.Time) error {
	z := zip.NewWriter(w)
	for _, p := range parts {
		header := &zip.FileHeader{Name: p.name, Method: zip.Deflate, Modified: at}
		header.SetMode(p.mode)
		entry, err := z.CreateHeader(header)
		if err != nil {
			return err
		}
		if _, err := entry.Write(p.data); err != nil {
			return err
		}
	}
	return z.Close()
}

// readFolder returns a folder's files, sorted by name, as parts.
func readFolder(folder string) (parts []part, err error) {
	err = filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		name, relErr := filepath.Rel(folder, path)
		parts = append(parts, part{filepath.ToSlash(name), 0o644, data})
		return errors.Join(err, relErr)
	})
	return parts, err
}
