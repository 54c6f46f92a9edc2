package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// The release that the tests look at, for this machine's architecture only, and the copy of the sources that it was built from.
var built, sources string

const testVersion = "1.2.3-dev"

var testPlatforms = []platform{{"linux", runtime.GOARCH}}

func TestMain(m *testing.M) {
	os.Exit(func() int {
		temp, err := os.MkdirTemp("", "delayer-release-test")
		defer os.RemoveAll(temp)
		built, sources = filepath.Join(temp, "dist"), filepath.Join(temp, "sources")
		err = errors.Join(err, os.Setenv("SOURCE_DATE_EPOCH", "1700000000"), copySources(sources),
			release(options{testVersion, sources, built, testPlatforms}))
		if err != nil {
			println(err.Error())
			return 1
		}
		return m.Run()
	}())
}

// must fails the test on an error.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// copySources copies what a release is built from to another folder.
func copySources(to string) error {
	const root = "../.."
	return filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		name, relErr := filepath.Rel(root, path)
		if err = errors.Join(err, relErr); err != nil {
			return err
		}
		target := filepath.Join(to, name)
		switch {
		case entry.IsDir() && (name != "." && strings.HasPrefix(name, ".") || name == "bin" || name == "dist"):
			return fs.SkipDir
		case entry.IsDir():
			return os.MkdirAll(target, 0o755)
		case !entry.Type().IsRegular() || strings.HasSuffix(name, "_test.go") && !strings.HasPrefix(name, "examples"): // which archives have
			return nil
		}
		data, err := os.ReadFile(path)
		return errors.Join(err, os.WriteFile(target, data, 0o644))
	})
}

// Two builds in two folders are the same byte for byte.
func TestReproducible(t *testing.T) {
	second := t.TempDir()
	must(t, release(options{testVersion, "../..", second, testPlatforms}))
	first, err := readFolder(built)
	must(t, err)
	again, err := readFolder(second)
	must(t, err)
	if len(first) != 7 || len(first) != len(again) {
		t.Fatalf("%d and %d files, want 7: an archive, three packages, an image, a list of components, sums", len(first), len(again))
	}
	for i := range first {
		if first[i].name != again[i].name || !bytes.Equal(first[i].data, again[i].data) {
			t.Errorf("%s and %s differ", first[i].name, again[i].name)
		}
	}
}

// An archive has the daemon, its manual pages and completions, and every document that its documents link to.
func TestArchives(t *testing.T) {
	documents, err := documents("../..")
	must(t, err)
	for goos, list := range map[string]func(*testing.T, []byte) []string{"linux": listTar, "windows": listZip} {
		b := &builder{options: options{version: "1", out: t.TempDir()}}
		must(t, b.archive(platform{goos, "amd64"}, []byte("binary"), documents, []part{{"man/delayer.1", 0o644, []byte("page")}}))
		files, err := readFolder(b.out)
		must(t, err)
		names := list(t, files[0].data)
		daemon := map[string]string{"linux": "delayer", "windows": "delayer.exe"}[goos]
		for _, name := range append(linked(t, documents), daemon, "delayer.conf", "LICENSE", "man/delayer.1") {
			if !slices.Contains(names, "delayer-1-"+goos+"-amd64/"+name) {
				t.Errorf("%s: %s is missing", goos, name)
			}
		}
		if len(names) != len(documents)+2 {
			t.Errorf("%s: %d files, want %d", goos, len(names), len(documents)+2)
		}
	}
	names := listTar(t, result(t, ".tar.gz"))
	for _, name := range []string{"man/delayer.1", "man/delayer.conf.5", "completions/delayer.bash", "completions/_delayer", "completions/delayer.fish", licencesName} {
		if !slices.Contains(names, "delayer-"+testVersion+"-linux-"+runtime.GOARCH+"/"+name) {
			t.Errorf("%s is missing", name)
		}
	}
}

// result reads the release's file of that kind.
func result(t *testing.T, suffix string) []byte {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(built, "*"+suffix))
	if err != nil || len(files) != 1 {
		t.Fatalf("*%s: %v, %v", suffix, files, err)
	}
	data, err := os.ReadFile(files[0])
	must(t, err)
	return data
}

var link = regexp.MustCompile(`\]\(([^)#:]+)\)`)

// linked returns the files to which the documents link, except directories, which are links to the source.
func linked(t *testing.T, documents []part) (names []string) {
	for _, d := range documents {
		if filepath.Ext(d.name) != ".md" {
			continue
		}
		for _, found := range link.FindAllStringSubmatch(string(d.data), -1) {
			name := filepath.ToSlash(filepath.Join(filepath.Dir(d.name), found[1]))
			if info, err := os.Stat(filepath.Join("../..", name)); err == nil && !info.IsDir() && !strings.HasSuffix(name, ".go") {
				names = append(names, name)
			}
		}
	}
	if len(names) == 0 {
		t.Error("no links found")
	}
	return names
}

func listTar(t *testing.T, archive []byte) (names []string) {
	z, err := gzip.NewReader(bytes.NewReader(archive))
	must(t, err)
	for r := tar.NewReader(z); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return names
		}
		must(t, err)
		names = append(names, header.Name)
	}
}

func listZip(t *testing.T, archive []byte) (names []string) {
	r, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
	must(t, err)
	for _, f := range r.File {
		names = append(names, f.Name)
	}
	return names
}

// The list of components has every module that the daemon is linked with, each with its licence.
func TestComponents(t *testing.T) {
	var d spdxDocument
	must(t, json.Unmarshal(result(t, ".spdx.json"), &d))
	ids := map[string]string{d.ID: "the document"}
	for _, p := range d.Packages {
		if ids[p.ID] != "" {
			t.Errorf("%s has the ID of %s", p.Name, ids[p.ID])
		}
		ids[p.ID] = p.Name
		if p.LicenseDeclared == "" || p.VersionInfo == "" {
			t.Errorf("%s: version %q, licence %q", p.Name, p.VersionInfo, p.LicenseDeclared)
		}
	}
	for _, r := range d.Relationships {
		if ids[r.From] == "" || ids[r.To] == "" {
			t.Errorf("%s %s %s: no such elements", r.From, r.Type, r.To)
		}
	}
	names := slices.Sorted(func(yield func(string) bool) {
		for _, p := range d.Packages {
			yield(p.Name)
		}
	})
	for _, want := range []string{"delayer", "github.com/gomodule/redigo", "gopkg.in/ini.v1", "golang.org/x/sys", "uPlot", rootsModule, "Go's standard library"} {
		if !slices.Contains(names, want) {
			t.Errorf("%s is missing among %q", want, names)
		}
	}
	if len(d.Relationships) != len(d.Packages) {
		t.Errorf("%d relationships of %d packages", len(d.Relationships), len(d.Packages))
	}
}

func TestLicences(t *testing.T) {
	goRoot, err := exec.Command("go", "env", "GOROOT").Output()
	must(t, err)
	for name, want := range map[string]string{
		"../../LICENSE": "Apache-2.0",
		"../../internal/web/dashboard/static/vendor/uplot/LICENSE":  "MIT",
		filepath.Join(strings.TrimSpace(string(goRoot)), "LICENSE"): "BSD-3-Clause",
		"main.go": "",
	} {
		text, err := os.ReadFile(name)
		must(t, err)
		if got := licenceOf(string(text)); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}
