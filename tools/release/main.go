// Command release builds what a release consists of: an archive for each platform; packages for Debian, Red Hat and Alpine;
// a container image; the licences of everything that is in them, an SPDX list of it, and SHA256SUMS. The same commit gives
// the same bytes, wherever and whenever it is built with the same version of Go.
package main

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
)

type platform struct{ os, arch string }

var platforms = []platform{
	{"linux", "amd64"},
	{"linux", "arm64"},
	{"darwin", "amd64"},
	{"darwin", "arm64"},
	{"windows", "amd64"},
}

// options say what is built from which sources.
type options struct {
	version   string
	source    string // the folder of the sources
	out       string // the folder of the results, which is emptied first
	platforms []platform
}

func main() {
	log.SetFlags(0)
	o := options{source: ".", platforms: platforms}
	flag.StringVar(&o.version, "version", "", "the release's `version`")
	flag.StringVar(&o.out, "out", "dist", "the `folder` to write to")
	flag.Parse()
	if o.version == "" {
		log.Fatal("release: -version is missing")
	}
	if err := release(o); err != nil {
		log.Fatal("release: ", err)
	}
	files, _ := filepath.Glob(filepath.Join(o.out, "*"))
	fmt.Println(strings.Join(files, "\n"))
}

// builder is one run of release.
type builder struct {
	options
	time time.Time // of every file
	temp string
	sums strings.Builder
}

// release writes everything to o.out.
func release(o options) error {
	temp, err := os.MkdirTemp("", "delayer-release")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	b := &builder{options: o, time: commitTime(o.source), temp: temp}
	if err := errors.Join(os.RemoveAll(o.out), os.MkdirAll(o.out, 0o755)); err != nil {
		return err
	}
	binaries, err := b.buildAll()
	if err != nil {
		return err
	}
	components, err := components(o.source, binaries)
	if err != nil {
		return err
	}
	generated, err := b.generate()
	if err != nil {
		return err
	}
	generated = append(generated, part{licencesName, 0o644, licences(components)})
	documents, err := documents(o.source)
	if err != nil {
		return err
	}
	for _, p := range o.platforms {
		binary := binaries[p]
		if err := b.archive(p, binary, documents, generated); err != nil {
			return err
		}
		if p.os == "linux" {
			if err := b.packages(p.arch, binary, generated); err != nil {
				return err
			}
		}
	}
	if err := b.image(binaries, generated); err != nil {
		return err
	}
	list, err := b.spdx(components)
	if err != nil {
		return err
	}
	if err := b.write("delayer-"+b.version+".spdx.json", list); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(o.out, "SHA256SUMS"), []byte(b.sums.String()), 0o644)
}

// write writes one result and adds it to the sums.
func (b *builder) write(name string, data []byte) error {
	fmt.Fprintf(&b.sums, "%x  %s\n", sha256.Sum256(data), name)
	return os.WriteFile(filepath.Join(b.out, name), data, 0o644)
}

// commitTime is the time of the commit that is built, or what SOURCE_DATE_EPOCH says. Without either it is a fixed time.
func commitTime(source string) time.Time {
	said := os.Getenv("SOURCE_DATE_EPOCH")
	if said == "" {
		out, _ := exec.Command("git", "-C", source, "log", "-1", "--format=%ct").Output()
		said = strings.TrimSpace(string(out))
	}
	seconds, err := strconv.ParseInt(said, 10, 64)
	if err != nil {
		log.Print("release: neither a commit nor SOURCE_DATE_EPOCH gives a time: all files are of 2000-01-01")
		return time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	return time.Unix(seconds, 0).UTC()
}

// buildAll returns the daemon for each platform.
func (b *builder) buildAll() (map[platform][]byte, error) {
	binaries := map[platform][]byte{}
	for _, p := range b.platforms {
		path, err := b.build(p)
		if err != nil {
			return nil, err
		}
		if binaries[p], err = os.ReadFile(path); err != nil {
			return nil, err
		}
	}
	return binaries, nil
}

func (b *builder) build(p platform) (path string, err error) {
	path = filepath.Join(b.temp, "delayer-"+p.os+"-"+p.arch)
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w -X main.version="+b.version, "-o", path, "./cmd/delayer")
	cmd.Dir = b.source
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+p.os, "GOARCH="+p.arch, "GOAMD64=v1", "GOARM64=v8.0", "GOFLAGS=")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return path, cmd.Run()
}

// generate returns the files that the daemon makes of itself: manual pages and completions.
func (b *builder) generate() (parts []part, err error) {
	path, err := b.build(platform{runtime.GOOS, runtime.GOARCH})
	if err != nil {
		return nil, err
	}
	for _, g := range []struct{ name, arguments string }{
		{"man/delayer.1", "man"},
		{"man/delayer.conf.5", "man delayer.conf"},
		{"completions/delayer.bash", "completion bash"},
		{"completions/_delayer", "completion zsh"},
		{"completions/delayer.fish", "completion fish"},
	} {
		cmd := exec.Command(path, strings.Fields(g.arguments)...)
		cmd.Env = append(os.Environ(), "LC_ALL=C")
		var errors bytes.Buffer
		cmd.Stderr = &errors
		text, err := cmd.Output()
		if err != nil {
			return nil, fmt.Errorf("delayer %s: %w: %s", g.arguments, err, errors.String())
		}
		parts = append(parts, part{g.name, 0o644, text})
	}
	return parts, nil
}
