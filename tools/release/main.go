// Command release builds the archives of a release, one per platform, with the daemon, its configuration, the
// documentation and LICENSE, and SHA256SUMS. The same commit gives the same bytes.
package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

var platforms = []struct{ os, arch string }{
	{"linux", "amd64"},
	{"linux", "arm64"},
	{"darwin", "amd64"},
	{"darwin", "arm64"},
	{"windows", "amd64"},
}

// extras returns the files besides the daemon, in a fixed order.
func extras() ([]string, error) {
	files := []string{"delayer.conf", "README.md", "README.zh-CN.md", "LICENSE", "CHANGELOG.md", "ARCHITECTURE.md", "ARCHITECTURE.zh-CN.md",
		"CONTRIBUTING.md", "CONTRIBUTING.zh-CN.md", "SECURITY.md", "SECURITY.zh-CN.md"}
	err := filepath.WalkDir("docs", func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			files = append(files, path)
		}
		return err
	})
	return files, err
}

func main() {
	log.SetFlags(0)
	version := flag.String("version", "", "the release's `version`")
	out := flag.String("out", "dist", "the `folder` to write to")
	flag.Parse()
	if *version == "" {
		log.Fatal("release: -version is missing")
	}
	if err := release(*version, *out); err != nil {
		log.Fatal("release: ", err)
	}
}

func release(version, out string) error {
	extras, err := extras()
	if err != nil {
		return err
	}
	if err := os.RemoveAll(out); err != nil {
		return err
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	var sums strings.Builder
	for _, p := range platforms {
		binary, err := build(version, out, p.os, p.arch)
		if err != nil {
			return err
		}
		name, archive, err := pack(fmt.Sprintf("delayer-%s-%s-%s", version, p.os, p.arch), p.os, binary, extras)
		if err != nil {
			return err
		}
		file := filepath.Join(out, name)
		if err := errors.Join(os.Remove(binary), os.WriteFile(file, archive, 0o666)); err != nil {
			return err
		}
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(archive), name)
		fmt.Println(file)
	}
	return os.WriteFile(filepath.Join(out, "SHA256SUMS"), []byte(sums.String()), 0o644)
}

func build(version, out, goos, arch string) (string, error) {
	binary := filepath.Join(out, "delayer")
	if goos == "windows" {
		binary += ".exe"
	}
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w -X main.version="+version, "-o", binary, "./cmd/delayer")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+goos, "GOARCH="+arch)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return binary, cmd.Run()
}

// epoch is the time of files in the archives, which makes builds reproducible.
var epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// part is a file in an archive.
type part struct {
	name string // path within the archive, with slashes
	mode fs.FileMode
	data []byte
}

// pack builds an archive with one directory and the daemon first.
func pack(folder, goos, binary string, extras []string) (name string, archive []byte, err error) {
	parts := []part{{name: folder + "/" + filepath.Base(binary), mode: 0o755}}
	for _, file := range extras {
		parts = append(parts, part{name: folder + "/" + filepath.ToSlash(file), mode: 0o644})
	}
	for i, file := range append([]string{binary}, extras...) {
		if parts[i].data, err = os.ReadFile(file); err != nil {
			return "", nil, err
		}
	}
	var b bytes.Buffer
	if goos == "windows" {
		err = writeZip(&b, parts)
		return folder + ".zip", b.Bytes(), err
	}
	err = writeTar(&b, parts)
	return folder + ".tar.gz", b.Bytes(), err
}

func writeTar(w io.Writer, parts []part) error {
	z := gzip.NewWriter(w)
	t := tar.NewWriter(z)
	for _, p := range parts {
		if err := t.WriteHeader(&tar.Header{Name: p.name, Mode: int64(p.mode), Size: int64(len(p.data)), ModTime: epoch}); err != nil {
			return err
		}
		if _, err := t.Write(p.data); err != nil {
			return err
		}
	}
	return errors.Join(t.Close(), z.Close())
}

func writeZip(w io.Writer, parts []part) error {
	z := zip.NewWriter(w)
	for _, p := range parts {
		header := &zip.FileHeader{Name: p.name, Method: zip.Deflate, Modified: epoch}
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
