// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package supply

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
)

// bom is a CycloneDX 1.5 document.
type bom struct {
	Format       string       `json:"bomFormat"`
	SpecVersion  string       `json:"specVersion"`
	SerialNumber string       `json:"serialNumber"`
	Version      int          `json:"version"`
	Metadata     bomMetadata  `json:"metadata"`
	Components   []component  `json:"components"`
	Dependencies []dependency `json:"dependencies"`
}

type bomMetadata struct {
	Component  component  `json:"component"`
	Properties []property `json:"properties,omitempty"`
}

type component struct {
	Type       string     `json:"type"`
	Ref        string     `json:"bom-ref"`
	Name       string     `json:"name"`
	Version    string     `json:"version,omitempty"`
	PURL       string     `json:"purl,omitempty"`
	Hashes     []hash     `json:"hashes,omitempty"`
	Licenses   []licence  `json:"licenses,omitempty"`
	Properties []property `json:"properties,omitempty"`
}

type hash struct {
	Algorithm string `json:"alg"`
	Content   string `json:"content"`
}

// licence is the licence of a component: one by its SPDX identifier, or an expression of several.
type licence struct {
	License    *licenceID `json:"license,omitempty"`
	Expression string     `json:"expression,omitempty"`
}

type licenceID struct {
	ID string `json:"id"`
}

type property struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

type dependency struct {
	Ref       string   `json:"ref"`
	DependsOn []string `json:"dependsOn"`
}

// WriteSBOM writes the inventory of a program that Go built, as CycloneDX 1.5 in JSON: its own
// hash, each module with the version and checksum that the linker recorded in it, and the packages of
// the web UI if it embeds that. version is the program's; if it is empty, the inventory has the one
// that Go recorded. The same program and web UI give the same document.
func WriteSBOM(w io.Writer, program, version string, ui WebUI) error {
	main, libraries, properties, err := readProgram(program, "main", version, ui)
	if err != nil {
		return err
	}
	if version != "" {
		main.Version = version
	}
	document := newBOM(main)
	document.Metadata.Properties = properties
	document.Components = libraries
	document.Dependencies = []dependency{dependsOn(main.Ref, libraries)}
	return document.write(w)
}

// newBOM returns a document about a component whose first hash is a SHA-256.
func newBOM(about component) bom {
	return bom{
		Format: "CycloneDX", SpecVersion: "1.5", SerialNumber: serial(about.Hashes[0].Content), Version: 1,
		Metadata: bomMetadata{Component: about},
	}
}

func (b bom) write(w io.Writer) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(b)
}

// dependsOn returns that the component needs all the others.
func dependsOn(ref string, others []component) dependency {
	needs := dependency{Ref: ref, DependsOn: []string{}}
	for _, c := range others {
		needs.DependsOn = append(needs.DependsOn, c.Ref)
	}
	return needs
}

func sumOf(name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// readProgram returns the component of a program that Go built, the components of the modules in
// it and of the packages of the web UI, sorted, and the settings with which it was built. Modules of
// this repository get the version, if there is one: Go records none for them.
func readProgram(program, ref, version string, ui WebUI) (main component, libraries []component, settings []property, err error) {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return component{}, nil, nil, fmt.Errorf("read build info of %s: %w", program, err)
	}
	sum, err := sumOf(program)
	if err != nil {
		return component{}, nil, nil, fmt.Errorf("hash %s: %w", program, err)
	}
	main = component{
		Type: "application", Ref: ref, Name: path.Base(info.Path), Version: info.Main.Version,
		Hashes: []hash{{Algorithm: "SHA-256", Content: sum}}, Properties: []property{{"go:package", info.Path}},
	}
	for _, setting := range info.Settings {
		switch setting.Key {
		case "GOOS", "GOARCH", "CGO_ENABLED", "vcs.revision", "vcs.modified", "-trimpath":
			settings = append(settings, property{"go:" + setting.Key, setting.Value})
		}
	}
	libraries = []component{library("std", strings.TrimPrefix(info.GoVersion, "go"), "")}
	modules := []string{info.Main.Path}
	for _, m := range info.Deps {
		modules = append(modules, m.Path)
		switch {
		case m.Replace == nil:
		case !modfile.IsDirectoryPath(m.Replace.Path):
			m = m.Replace
		case version != "": // a folder is a module of this repository
			m.Version = "v" + version
		}
		libraries = append(libraries, library(m.Path, m.Version, m.Sum))
	}
	libraries = append(libraries, ui.in(modules)...)
	slices.SortFunc(libraries, byRef)
	return main, libraries, settings, nil
}

func byRef(a, b component) int { return strings.Compare(a.Ref, b.Ref) }

// library returns the component of a Go module. Its checksum is a hash over the hashes of its files
// (h1), so it is a property and not a hash of one file.
func library(name, version, sum string) component {
	c := component{Type: "library", Name: name, Version: version}
	segments := strings.Split(name, "/")
	for i, s := range segments {
		segments[i] = url.PathEscape(s)
	}
	c.PURL = "pkg:golang/" + strings.Join(segments, "/")
	if version != "" {
		c.PURL += "@" + url.QueryEscape(version)
	}
	c.Ref = c.PURL
	if sum != "" {
		c.Properties = []property{{"go:sum", sum}}
	}
	return c
}

// serial returns a UUID (version 8) derived from the program's hash, so that the same program gets
// the same one.
func serial(sum string) string {
	b, _ := hex.DecodeString(sum[:32])
	b[6], b[8] = b[6]&0x0f|0x80, b[8]&0x3f|0x80
	h := hex.EncodeToString(b)
	return "urn:uuid:" + h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}
