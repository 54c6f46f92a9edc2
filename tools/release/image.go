package main

import (
	"bytes"
	"encoding/pem"
	"fmt"
	"io"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// imageUser is the user of the image, by number, so that Kubernetes can see that it is not root.
const imageUser = "65532:65532"

// image writes the container image for all of Linux's architectures: an OCI layout in a tar file.
func (b *builder) image(binaries map[platform][]byte, generated []part) error {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, p := range b.platforms {
		if p.os != "linux" {
			continue
		}
		image, err := b.imageOf(p, binaries[p], generated)
		if err != nil {
			return err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: p.os, Architecture: p.arch}},
		})
	}
	folder := filepath.Join(b.temp, "oci")
	path, err := layout.Write(folder, empty.Index)
	if err != nil {
		return err
	}
	if err := path.AppendIndex(index, layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": b.version})); err != nil {
		return err
	}
	parts, err := readFolder(folder)
	if err != nil {
		return err
	}
	var archive bytes.Buffer
	if err := writeTar(&archive, parts, b.time); err != nil {
		return err
	}
	return b.write(fmt.Sprintf("delayer-%s-oci.tar", b.version), archive.Bytes())
}

// imageOf is the image of one platform. Its first layer is the same for all.
func (b *builder) imageOf(p platform, binary []byte, generated []part) (v1.Image, error) {
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	daemon := []part{{"usr/", 0o755, nil}, {"usr/bin/", 0o755, nil}, {"usr/bin/delayer", 0o755, binary}}
	for _, g := range generated {
		if g.name == licencesName {
			daemon = append(daemon, part{licencesName, 0o644, g.data})
		}
	}
	for _, parts := range [][]part{imageRoot(), daemon} {
		layer, err := b.layer(parts)
		if err != nil {
			return nil, err
		}
		if image, err = mutate.AppendLayers(image, layer); err != nil {
			return nil, err
		}
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config.Created = v1.Time{Time: b.time}
	config.OS, config.Architecture = p.os, p.arch
	config.Config = v1.Config{
		User:       imageUser,
		Entrypoint: []string{"/usr/bin/delayer"},
		Env:        []string{"PATH=/usr/bin", "DELAYER_PID=", "DELAYER_ACCESS_LOG=", "DELAYER_ERROR_LOG="}, // everything goes to standard output
		Labels: map[string]string{
			"org.opencontainers.image.title":    "Delayer",
			"org.opencontainers.image.version":  b.version,
			"org.opencontainers.image.source":   "https://github.com/mix-basic/delayer",
			"org.opencontainers.image.licenses": "Apache-2.0",
		},
	}
	for i := range config.History {
		config.History[i] = v1.History{Created: v1.Time{Time: b.time}}
	}
	return mutate.ConfigFile(image, config)
}

// imageRoot is what the daemon needs around it. Time zones are in the daemon itself.
func imageRoot() []part {
	return []part{
		{"etc/", 0o755, nil},
		{"etc/delayer/", 0o755, nil},
		{"etc/group", 0o644, []byte("root:x:0:\ndelayer:x:65532:\n")},
		{"etc/passwd", 0o644, []byte("root:x:0:0:root:/:/sbin/nologin\ndelayer:x:65532:65532:Delayer:/:/sbin/nologin\n")},
		{"etc/ssl/", 0o755, nil},
		{"etc/ssl/certs/", 0o755, nil},
		{"etc/ssl/certs/ca-certificates.crt", 0o644, roots()},
		{"tmp/", 0o1777, nil},
	}
}

// roots are Mozilla's certificate authorities, without those that it trusts only in part, which a file can't say.
func roots() []byte {
	var b bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			pem.Encode(&b, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate})
		}
	}
	return b.Bytes()
}

func (b *builder) layer(parts []part) (v1.Layer, error) {
	var data bytes.Buffer
	if err := writeTar(&data, parts, b.time); err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(data.Bytes())), nil
	}, tarball.WithMediaType(types.OCILayer))
}
