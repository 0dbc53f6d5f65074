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
	"runtime/debug"
	"slices"
	"strings"
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
	Properties []property `json:"properties,omitempty"`
}

type hash struct {
	Algorithm string `json:"alg"`
	Content   string `json:"content"`
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
// hash, and each module with the version and checksum that the linker recorded in it. The same
// program gives the same document.
func WriteSBOM(w io.Writer, program string) error {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return fmt.Errorf("read build info of %s: %w", program, err)
	}
	sum, err := sumOf(program)
	if err != nil {
		return fmt.Errorf("hash %s: %w", program, err)
	}
	document := inventory(info, sum)
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(document)
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

func inventory(info *debug.BuildInfo, sum string) bom {
	main := component{
		Type: "application", Ref: "main", Name: path.Base(info.Path), Version: info.Main.Version,
		Hashes: []hash{{Algorithm: "SHA-256", Content: sum}}, Properties: []property{{"go:package", info.Path}},
	}
	document := bom{
		Format: "CycloneDX", SpecVersion: "1.5", SerialNumber: serial(sum), Version: 1, Metadata: bomMetadata{Component: main},
		Components: []component{library("std", strings.TrimPrefix(info.GoVersion, "go"), "")},
	}
	for _, setting := range info.Settings {
		switch setting.Key {
		case "GOOS", "GOARCH", "CGO_ENABLED", "vcs.revision", "vcs.modified", "-trimpath":
			document.Metadata.Properties = append(document.Metadata.Properties, property{"go:" + setting.Key, setting.Value})
		}
	}
	for _, m := range info.Deps {
		if m.Replace != nil && m.Replace.Version != "" { // a replacement without a version is a folder of this repository
			m = m.Replace
		}
		document.Components = append(document.Components, library(m.Path, m.Version, m.Sum))
	}
	slices.SortFunc(document.Components, func(a, b component) int { return strings.Compare(a.Ref, b.Ref) })
	needs := dependency{Ref: main.Ref, DependsOn: []string{}}
	for _, c := range document.Components {
		needs.DependsOn = append(needs.DependsOn, c.Ref)
	}
	document.Dependencies = []dependency{needs}
	return document
}

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
