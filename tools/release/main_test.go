package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// An archive has the daemon and every document that its documents link to.
func TestArchives(t *testing.T) {
	t.Chdir("../..")
	files, err := extras()
	if err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(t.TempDir(), "delayer")
	if err := os.WriteFile(binary, []byte("binary"), 0o600); err != nil {
		t.Fatal(err)
	}
	for goos, list := range map[string]func([]byte) ([]string, error){"linux": listTar, "windows": listZip} {
		_, archive, err := pack("delayer-1", goos, binary, files)
		if err != nil {
			t.Fatal(err)
		}
		names, err := list(archive)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range append(linked(t, files), "delayer", "delayer.conf", "LICENSE") {
			if !slices.Contains(names, "delayer-1/"+name) {
				t.Errorf("%s: %s is missing", goos, name)
			}
		}
		if len(names) != len(files)+1 {
			t.Errorf("%s: %d files, want %d", goos, len(names), len(files)+1)
		}
	}
}

var link = regexp.MustCompile(`\]\(([^)#:]+)\)`)

// linked returns the files to which the documents link, except directories, which are links to the source.
func linked(t *testing.T, files []string) (names []string) {
	for _, file := range files {
		if filepath.Ext(file) != ".md" {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range link.FindAllStringSubmatch(string(text), -1) {
			name := filepath.ToSlash(filepath.Join(filepath.Dir(file), found[1]))
			if info, err := os.Stat(name); err == nil && !info.IsDir() && !strings.HasSuffix(name, ".go") {
				names = append(names, name)
			}
		}
	}
	if len(names) == 0 {
		t.Error("no links found")
	}
	return names
}

func listTar(archive []byte) (names []string, err error) {
	z, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		return nil, err
	}
	for r := tar.NewReader(z); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return names, nil
		}
		if err != nil {
			return nil, err
		}
		names = append(names, header.Name)
	}
}

func listZip(archive []byte) (names []string, err error) {
	r, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
	if err != nil {
		return nil, err
	}
	for _, f := range r.File {
		names = append(names, f.Name)
	}
	return names, nil
}
