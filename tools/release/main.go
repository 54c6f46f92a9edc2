// Command release builds the archives of a release into a folder: one for each
// platform, with the daemon, its configuration, README and LICENSE, and
// SHA256SUMS over all. The same commit gives the same bytes.
package main

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"crypto/sha256"
	"flag"
	"fmt"
	"io"
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

var extras = []string{"delayer.conf", "README.md", "README.zh-CN.md", "LICENSE", "CHANGELOG.md"}

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
	if err := os.RemoveAll(out); err != nil {
		return err
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	var sums strings.Builder
	for _, p := range platforms {
		name := fmt.Sprintf("delayer-%s-%s-%s", version, p.os, p.arch)
		binary, err := build(version, out, p.os, p.arch)
		if err != nil {
			return err
		}
		archive, err := pack(out, name, p.os, append([]string{binary}, extras...))
		if err != nil {
			return err
		}
		if err := os.Remove(binary); err != nil {
			return err
		}
		sum, err := sha256Of(archive)
		if err != nil {
			return err
		}
		fmt.Fprintf(&sums, "%x  %s\n", sum, filepath.Base(archive))
		fmt.Println(archive)
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

// epoch is the files' time in the archives, so that it says nothing of the build.
var epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

func pack(out, name, goos string, files []string) (archive string, err error) {
	archive = filepath.Join(out, name+".tar.gz")
	write := writeTar
	if goos == "windows" {
		archive, write = filepath.Join(out, name+".zip"), writeZip
	}
	f, err := os.Create(archive)
	if err != nil {
		return "", err
	}
	if err := write(f, name, files); err != nil {
		f.Close()
		return "", err
	}
	return archive, f.Close()
}

func writeTar(w io.Writer, dir string, files []string) error {
	z := gzip.NewWriter(w)
	t := tar.NewWriter(z)
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		header := &tar.Header{Name: dir + "/" + filepath.Base(file), Mode: int64(mode(file)), Size: int64(len(data)), ModTime: epoch}
		if err := t.WriteHeader(header); err != nil {
			return err
		}
		if _, err := t.Write(data); err != nil {
			return err
		}
	}
	if err := t.Close(); err != nil {
		return err
	}
	return z.Close()
}

func writeZip(w io.Writer, dir string, files []string) error {
	z := zip.NewWriter(w)
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		header := &zip.FileHeader{Name: dir + "/" + filepath.Base(file), Method: zip.Deflate, Modified: epoch}
		header.SetMode(mode(file))
		part, err := z.CreateHeader(header)
		if err != nil {
			return err
		}
		if _, err := part.Write(data); err != nil {
			return err
		}
	}
	return z.Close()
}

func mode(file string) os.FileMode {
	if strings.HasPrefix(filepath.Base(file), "delayer") && !strings.HasSuffix(file, ".conf") {
		return 0o755
	}
	return 0o644
}

func sha256Of(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	h := sha256.New()
	_, err = io.Copy(h, f)
	return h.Sum(nil), err
}
