package main

import (
	"bytes"
	"compress/gzip"
	"embed"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/apk" // each format registers itself
	_ "github.com/goreleaser/nfpm/v2/deb"
	"github.com/goreleaser/nfpm/v2/files"
	_ "github.com/goreleaser/nfpm/v2/rpm"
)

//go:embed scripts
var scripts embed.FS

// formats are the packages that are built, by nfpm's names.
var formats = []string{"deb", "rpm", "apk"}

// installed are the files of a package.
func (b *builder) installed(format string, binary []byte, generated []part) (contents files.Contents, err error) {
	const share = "/usr/share/"
	targets := map[string]string{
		"man/delayer.1":            share + "man/man1/delayer.1.gz",
		"man/delayer.conf.5":       share + "man/man5/delayer.conf.5.gz",
		"completions/delayer.bash": share + "bash-completion/completions/delayer",
		"completions/_delayer":     share + "zsh/site-functions/_delayer",
		"completions/delayer.fish": share + "fish/vendor_completions.d/delayer.fish",
		licencesName:               share + "doc/delayer/" + licencesName,
	}
	add := func(target, kind string, mode os.FileMode, data []byte) {
		path := filepath.Join(b.temp, format, target)
		if strings.HasSuffix(target, ".gz") {
			data = zipped(data)
		}
		contents = append(contents, &files.Content{Source: path, Destination: target, Type: kind, FileInfo: &files.ContentFileInfo{Mode: mode, MTime: b.time}})
		if err == nil {
			err = b.stage(path, data)
		}
	}
	read := func(name string) []byte {
		data, readErr := os.ReadFile(filepath.Join(b.source, name))
		if err == nil {
			err = readErr
		}
		return data
	}
	add("/usr/bin/delayer", files.TypeFile, 0o755, binary)
	add("/etc/delayer/delayer.conf", files.TypeConfigNoReplace, 0o640, read("delayer.conf"))
	add("/etc/logrotate.d/delayer", files.TypeConfigNoReplace, 0o644, read("docs/logrotate/delayer"))
	add(share+"doc/delayer/copyright", files.TypeFile, 0o644, read("LICENSE"))
	add(share+"doc/delayer/changelog.gz", files.TypeFile, 0o644, read("CHANGELOG.md"))
	for _, g := range generated {
		add(targets[g.name], files.TypeFile, g.mode, g.data)
	}
	if format == "apk" {
		service, readErr := scripts.ReadFile("scripts/delayer.openrc")
		if readErr != nil {
			return nil, readErr
		}
		add("/etc/init.d/delayer", files.TypeFile, 0o755, service)
	} else {
		unit := strings.ReplaceAll(string(read("docs/systemd/delayer.service")), "/usr/local/bin/", "/usr/bin/")
		add("/usr/lib/systemd/system/delayer.service", files.TypeFile, 0o644, []byte(unit))
		add("/usr/lib/sysusers.d/delayer.conf", files.TypeFile, 0o644, read("docs/systemd/delayer.sysusers"))
	}
	return contents, err
}

// packages writes the packages of an architecture.
func (b *builder) packages(arch string, binary []byte, generated []part) error {
	for _, format := range formats {
		contents, err := b.installed(format, binary, generated)
		if err != nil {
			return err
		}
		run := nfpm.Scripts{}
		for name, path := range map[string]*string{"postinstall": &run.PostInstall, "preremove": &run.PreRemove, "postremove": &run.PostRemove} {
			text, err := scripts.ReadFile("scripts/" + name + ".sh")
			if err != nil {
				return err
			}
			*path = filepath.Join(b.temp, name)
			if err := b.stage(*path, text); err != nil {
				return err
			}
		}
		info := nfpm.WithDefaults(&nfpm.Info{
			Name: "delayer", Arch: arch, Platform: "linux", Version: b.version, MTime: b.time,
			Section: "net", Priority: "optional", Maintainer: "The authors of Delayer", License: "Apache-2.0",
			Homepage: "https://github.com/mix-basic/delayer",
			Description: "delayed message queue on Redis\n" +
				"A daemon that delivers jobs when their delay is over, and commands that push and take them.",
			DisableGlobbing: true,
			Overridables:    nfpm.Overridables{Contents: contents, Scripts: run},
		})
		info.RPM.BuildHost = "localhost" // not the machine's name
		if format == "apk" {
			info.APK.Scripts.PostUpgrade = run.PostInstall
			info.Release = "0"
			if info.Prerelease != "" { // Alpine knows no -dev
				info.Prerelease = "pre"
			}
		}
		packager, err := nfpm.Get(format)
		if err != nil {
			return err
		}
		var file bytes.Buffer
		if err := packager.Package(info, &file); err != nil {
			return fmt.Errorf("%s: %w", format, err)
		}
		if err := b.write(fmt.Sprintf("delayer-%s-linux-%s.%s", b.version, arch, format), file.Bytes()); err != nil {
			return err
		}
	}
	return nil
}

// stage writes a file for nfpm, which takes a script's time from the file.
func (b *builder) stage(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(path, data, 0o644); err != nil {
		return err
	}
	return os.Chtimes(path, b.time, b.time)
}

func zipped(data []byte) []byte {
	var b bytes.Buffer
	z, _ := gzip.NewWriterLevel(&b, gzip.BestCompression)
	z.Write(data)
	z.Close()
	return b.Bytes()
}
