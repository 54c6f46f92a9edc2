//go:build linux

package main

import (
	"archive/tar"
	"bytes"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// unpack unpacks a tar archive into a folder.
func unpack(t *testing.T, archive io.Reader, folder string) {
	t.Helper()
	for r := tar.NewReader(archive); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		path := filepath.Join(folder, header.Name)
		switch {
		case err == nil && header.Typeflag == tar.TypeDir:
			err = os.MkdirAll(path, 0o755)
		case err == nil:
			data, readErr := io.ReadAll(r)
			err = errors.Join(readErr, os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, data, os.FileMode(header.Mode)))
		}
		must(t, err)
	}
}

// The image is whole, and runs from nothing but its layers, as its own user.
func TestImage(t *testing.T) {
	folder, root := t.TempDir(), t.TempDir()
	unpack(t, bytes.NewReader(result(t, "-oci.tar")), folder)
	path, err := layout.FromPath(folder)
	must(t, err)
	outer, err := path.ImageIndex()
	must(t, err)
	manifest, err := outer.IndexManifest()
	if err != nil || len(manifest.Manifests) != 1 || manifest.Manifests[0].Annotations["org.opencontainers.image.ref.name"] != testVersion {
		t.Fatalf("%+v, %v", manifest, err)
	}
	index, err := outer.ImageIndex(manifest.Manifests[0].Digest)
	must(t, err)
	if err := validate.Index(index); err != nil {
		t.Error(err)
	}
	images, err := index.IndexManifest()
	if err != nil || len(images.Manifests) != 1 || !images.Manifests[0].Platform.Equals(v1.Platform{OS: "linux", Architecture: runtime.GOARCH}) {
		t.Fatalf("%+v, %v", images, err)
	}
	image, err := index.Image(images.Manifests[0].Digest)
	must(t, err)
	layers, err := image.Layers()
	if err != nil || len(layers) != 2 {
		t.Fatal(layers, err)
	}
	for _, layer := range layers {
		archive, err := layer.Uncompressed()
		must(t, err)
		unpack(t, archive, root)
	}
	config, err := image.ConfigFile()
	if err != nil || config.Config.User != imageUser || config.OS != "linux" || config.Architecture != runtime.GOARCH {
		t.Errorf("%+v, %v", config, err)
	}
	if shown, _ := json.Marshal(config.History); strings.Contains(string(shown), "go-containerregistry") {
		t.Errorf("history: %s", shown)
	}
	certificates, err := os.ReadFile(filepath.Join(root, "etc/ssl/certs/ca-certificates.crt"))
	if pool := x509.NewCertPool(); err != nil || !pool.AppendCertsFromPEM(certificates) || bytes.Count(certificates, []byte("BEGIN")) < 80 {
		t.Errorf("certificate authorities: %v, %d bytes", err, len(certificates))
	}

	if os.Geteuid() != 0 {
		t.Skip("only root may run the image's program with the image as its root")
	}
	conf := "[schedule:s]\ncron = 0 3 * * *\nzone = Europe/Berlin\ntopic = t\n"
	must(t, os.WriteFile(filepath.Join(root, "etc/delayer/delayer.conf"), []byte(conf), 0o644))
	must(t, os.Chmod(root, 0o755))
	for _, c := range []struct{ arguments, want string }{
		{"-v", testVersion + "\n"},
		{"--check-config", "/etc/delayer/delayer.conf"},
	} {
		cmd := exec.Command(config.Config.Entrypoint[0], c.arguments)
		cmd.Env, cmd.Dir = append(config.Config.Env, "TZ=Asia/Tokyo"), "/"
		cmd.SysProcAttr = inRoot(root)
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), c.want) {
			t.Errorf("delayer %s: %v\n%s", c.arguments, err, out)
		}
	}
}
