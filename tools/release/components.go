package main

import (
	"bytes"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// licencesName is the file with the licences of everything that others wrote.
const licencesName = "THIRD-PARTY-LICENCES.txt"

// component is something in the release that others wrote.
type component struct {
	name, version string
	purl          string // its package URL
	licence       string // its name in SPDX's list
	text          []byte
}

// vendored is what the dashboard brings along, and roots are the image's: both are in no binary's list of modules.
const (
	vendored    = "internal/web/dashboard/static/vendor/uplot"
	rootsModule = "golang.org/x/crypto/x509roots/fallback"
)

var uPlotVersion = regexp.MustCompile(`uPlot \(v([0-9.]+)\)`)

// components lists what is in the binaries, and in the image besides.
func components(source string, binaries map[platform][]byte) ([]component, error) {
	modules, goVersion := []string{}, ""
	for _, binary := range binaries {
		info, err := buildinfo.Read(bytes.NewReader(binary))
		if err != nil {
			return nil, err
		}
		goVersion = strings.TrimPrefix(info.GoVersion, "go")
		for _, m := range info.Deps {
			modules = append(modules, m.Path)
		}
	}
	slices.Sort(modules)
	list, err := ofModules(source, slices.Compact(modules))
	if err != nil {
		return nil, err
	}
	roots, err := ofModules(filepath.Join(source, "tools"), []string{rootsModule})
	if err != nil {
		return nil, err
	}
	script, err := os.ReadFile(filepath.Join(source, vendored, "uPlot.iife.min.js"))
	if err != nil {
		return nil, err
	}
	version := uPlotVersion.FindSubmatch(script)
	if version == nil {
		return nil, fmt.Errorf("%s: no version found", vendored)
	}
	uPlot, err := newComponent("uPlot", string(version[1]), "pkg:npm/uplot", filepath.Join(source, vendored))
	if err != nil {
		return nil, err
	}
	goRoot, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return nil, err
	}
	standard, err := newComponent("Go's standard library", goVersion, "pkg:golang/std", strings.TrimSpace(string(goRoot)))
	return append(list, append(roots, uPlot, standard)...), err
}

// ofModules finds Go modules, in the versions that the module in the folder uses.
func ofModules(folder string, modules []string) (list []component, err error) {
	cmd := exec.Command("go", append([]string{"list", "-m", "-f", "{{.Path}}\t{{.Version}}\t{{.Dir}}"}, modules...)...)
	cmd.Dir, cmd.Stderr = folder, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list -m: %w", err)
	}
	for line := range strings.Lines(string(out)) {
		fields := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		c, err := newComponent(fields[0], fields[1], "pkg:golang/"+fields[0], fields[2])
		if err != nil {
			return nil, err
		}
		list = append(list, c)
	}
	return list, nil
}

// newComponent reads a component's licence, and notices, from its folder.
func newComponent(name, version, purl, folder string) (component, error) {
	c := component{name: name, version: version, purl: purl + "@" + version}
	for _, pattern := range []string{"LICEN[SC]E*", "COPYING*", "NOTICE*"} {
		files, err := filepath.Glob(filepath.Join(folder, pattern))
		if err != nil {
			return c, err
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				return c, err
			}
			if c.licence == "" {
				c.licence = licenceOf(string(text))
			}
			c.text = append(append(c.text, bytes.TrimSpace(text)...), "\n\n"...)
		}
	}
	if c.licence == "" {
		return c, fmt.Errorf("%s %s: no known licence in %s: read it, and teach licenceOf", name, version, folder)
	}
	return c, nil
}

// licenceOf recognizes a licence by its words.
func licenceOf(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	has := func(words string) bool { return strings.Contains(text, words) }
	switch {
	case has("Apache License Version 2.0"):
		return "Apache-2.0"
	case has("Permission is hereby granted, free of charge"):
		return "MIT"
	case has("Redistribution and use in source and binary forms") && has("Neither the name"):
		return "BSD-3-Clause"
	case has("Redistribution and use in source and binary forms"):
		return "BSD-2-Clause"
	}
	return ""
}

// licences is the text of licencesName.
func licences(list []component) []byte {
	var b bytes.Buffer
	b.WriteString("Delayer contains the following, under these licences. The certificate authorities in the container image are Mozilla's list,\n" +
		"under the Mozilla Public License 2.0 (https://mozilla.org/MPL/2.0/).\n")
	for _, c := range list {
		fmt.Fprintf(&b, "\n%s\n%s %s (%s)\n%[1]s\n\n%[5]s", strings.Repeat("=", 80), c.name, c.version, c.licence, c.text)
	}
	return b.Bytes()
}

// The parts of an SPDX document, version 2.3, that we fill in.
type (
	spdxDocument struct {
		Version           string             `json:"spdxVersion"`
		DataLicense       string             `json:"dataLicense"`
		ID                string             `json:"SPDXID"`
		Name              string             `json:"name"`
		DocumentNamespace string             `json:"documentNamespace"`
		CreationInfo      spdxCreation       `json:"creationInfo"`
		Packages          []spdxPackage      `json:"packages"`
		Relationships     []spdxRelationship `json:"relationships"`
	}
	spdxCreation struct {
		Created  string   `json:"created"`
		Creators []string `json:"creators"`
	}
	spdxPackage struct {
		ID               string          `json:"SPDXID"`
		Name             string          `json:"name"`
		VersionInfo      string          `json:"versionInfo"`
		DownloadLocation string          `json:"downloadLocation"`
		FilesAnalyzed    bool            `json:"filesAnalyzed"`
		LicenseConcluded string          `json:"licenseConcluded"`
		LicenseDeclared  string          `json:"licenseDeclared"`
		CopyrightText    string          `json:"copyrightText"`
		ExternalRefs     []spdxReference `json:"externalRefs"`
	}
	spdxReference struct {
		Category string `json:"referenceCategory"`
		Type     string `json:"referenceType"`
		Locator  string `json:"referenceLocator"`
	}
	spdxRelationship struct {
		From string `json:"spdxElementId"`
		Type string `json:"relationshipType"`
		To   string `json:"relatedSpdxElement"`
	}
)

var notInSPDXID = regexp.MustCompile(`[^A-Za-z0-9.-]+`)

// spdx lists the components as an SPDX document.
func (b *builder) spdx(list []component) ([]byte, error) {
	const document = "SPDXRef-DOCUMENT"
	d := spdxDocument{
		Version: "SPDX-2.3", DataLicense: "CC0-1.0", ID: document, Name: "delayer-" + b.version,
		DocumentNamespace: fmt.Sprintf("https://github.com/mix-basic/delayer/spdx/%s-%d", b.version, b.time.Unix()),
		CreationInfo:      spdxCreation{b.time.Format(time.RFC3339), []string{"Tool: delayer-release"}},
	}
	self := component{name: "delayer", version: b.version, purl: "pkg:golang/github.com/mix-basic/delayer@v" + b.version, licence: "Apache-2.0"}
	for i, c := range append([]component{self}, list...) {
		id := "SPDXRef-" + notInSPDXID.ReplaceAllString(c.name, "-")
		d.Packages = append(d.Packages, spdxPackage{
			ID: id, Name: c.name, VersionInfo: c.version, DownloadLocation: "NOASSERTION",
			LicenseConcluded: c.licence, LicenseDeclared: c.licence, CopyrightText: "NOASSERTION",
			ExternalRefs: []spdxReference{{"PACKAGE-MANAGER", "purl", c.purl}},
		})
		relationship := spdxRelationship{d.Packages[0].ID, "CONTAINS", id}
		if i == 0 {
			relationship = spdxRelationship{document, "DESCRIBES", id}
		}
		d.Relationships = append(d.Relationships, relationship)
	}
	return json.MarshalIndent(d, "", "  ")
}
