// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package helmrelease reads the releases that Helm keeps in a cluster, and makes services of them.
//
// Helm keeps each revision of a release in a Secret of the release's namespace. [Store] reads and
// deletes these Secrets, [Decode] reads one of them, [Document] makes the service, and [Compare]
// compares what Helm has applied with what the service makes. Only Store asks the cluster.
//
// The Secrets, and the API server that serves them, count as hostile: everything that is read of
// them is bounded.
package helmrelease

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/leatdev/leat/render"
)

// MaxRelease bounds a decoded release. A Secret has at most 1 MiB, which may decompress to 1 GiB.
const MaxRelease = 32 << 20

// Deployed is the status of the revision that is in the cluster.
const Deployed = "deployed"

// Release is one revision of a release, as Helm records it.
type Release struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	Version   int    `json:"version"`
	Info      struct {
		Status string `json:"status"`
	} `json:"info"`
	// Values are the ones that the person set. They do not include the chart's own.
	Values map[string]any `json:"config"`
	// Manifest holds the objects that Helm has applied, without hooks and without the definitions in
	// crds.
	Manifest string `json:"manifest"`
	Chart    Chart  `json:"chart"`
}

// Chart is the chart of a release. Helm keeps it without the charts that it depends on.
type Chart struct {
	Metadata  map[string]any `json:"metadata"`
	Templates []File         `json:"templates"`
	Files     []File         `json:"files"`
	Values    map[string]any `json:"values"`
	Schema    []byte         `json:"schema"`
}

// File is a file of a chart, by its path from the chart's folder.
type File struct {
	Name string `json:"name"`
	Data []byte `json:"data"`
}

// errDamaged is why a Secret holds no release that can be read.
var errDamaged = errors.New("holds no release that can be read")

// Decode reads the value "release" of a Secret: JSON, usually in gzip, in base64.
func Decode(data []byte) (Release, error) {
	text := make([]byte, base64.StdEncoding.DecodedLen(len(data)))
	n, err := base64.StdEncoding.Decode(text, data)
	if err != nil {
		return Release{}, fmt.Errorf("%w: %w", errDamaged, err)
	}
	text = text[:n]
	if bytes.HasPrefix(text, []byte{0x1f, 0x8b}) {
		if text, err = inflate(text); err != nil {
			return Release{}, err
		}
	}
	var r Release
	if err := json.Unmarshal(text, &r); err != nil {
		return Release{}, fmt.Errorf("%w: %w", errDamaged, err)
	}
	if r.Name == "" || r.Chart.Name() == "" {
		return Release{}, fmt.Errorf("%w: it names no release or no chart", errDamaged)
	}
	return r, nil
}

func inflate(packed []byte) ([]byte, error) {
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errDamaged, err)
	}
	text, err := io.ReadAll(io.LimitReader(z, MaxRelease+1))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errDamaged, err)
	}
	if len(text) > MaxRelease {
		return nil, fmt.Errorf("%w: it has more than %d MiB", errDamaged, MaxRelease>>20)
	}
	return text, nil
}

// Name returns the chart's name.
func (c Chart) Name() string { return c.text("name") }

// Version returns the chart's version.
func (c Chart) Version() string { return c.text("version") }

func (c Chart) text(field string) string {
	text, _ := c.Metadata[field].(string)
	return text
}

// Dependencies returns the charts that the chart depends on, as "NAME VERSION".
func (c Chart) Dependencies() []string {
	list, _ := c.Metadata["dependencies"].([]any)
	var all []string
	for _, item := range list {
		fields, _ := item.(map[string]any)
		all = append(all, strings.TrimSpace(fmt.Sprintf("%v %v", fields["name"], fields["version"])))
	}
	return all
}

// HasDefinitions reports whether the chart has a folder crds. The charts that it depends on are not
// searched.
func (c Chart) HasDefinitions() bool {
	return slices.ContainsFunc(c.Files, func(f File) bool { return strings.HasPrefix(f.Name, "crds/") })
}

// DependenciesError reports a chart whose dependencies Helm does not keep.
type DependenciesError struct{ Missing []string }

// Error implements error.
func (e *DependenciesError) Error() string {
	return "the release does not hold the charts that its chart depends on: " + strings.Join(e.Missing, ", ")
}

// Content returns the files of the chart, by their path from its folder. Comments of its values are
// lost. It returns a *DependenciesError if the chart needs files that the release does not have.
func (c Chart) Content() (map[string][]byte, error) {
	if missing := c.Dependencies(); len(missing) > 0 {
		return nil, &DependenciesError{Missing: missing}
	}
	content := map[string][]byte{}
	for name, tree := range map[string]map[string]any{render.ChartFile: c.Metadata, "values.yaml": c.Values} {
		text, err := yaml.Marshal(tree)
		if err != nil {
			return nil, fmt.Errorf("write %s: %w", name, err)
		}
		content[name] = text
	}
	if len(c.Schema) > 0 {
		content["values.schema.json"] = c.Schema
	}
	for _, file := range slices.Concat(c.Templates, c.Files) {
		if name := path.Clean(file.Name); name != file.Name || name == "." || path.IsAbs(name) || strings.HasPrefix(name, "..") || strings.Contains(name, `\`) {
			return nil, fmt.Errorf("%w: its chart has a file with the name %q", errDamaged, file.Name)
		}
		if _, isThere := content[file.Name]; !isThere {
			content[file.Name] = file.Data
		}
	}
	return content, nil
}

// WriteChart writes the files of a chart into a new folder. No name leads out of it.
func WriteChart(folder string, content map[string][]byte) error {
	if err := os.MkdirAll(filepath.Dir(folder), 0o755); err != nil {
		return err
	}
	if err := os.Mkdir(folder, 0o755); err != nil {
		return err
	}
	root, err := os.OpenRoot(folder)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }() // nothing is written by it
	for _, name := range slices.Sorted(maps.Keys(content)) {
		if err := root.MkdirAll(path.Dir(name), 0o755); err != nil {
			return err
		}
		if err := root.WriteFile(name, content[name], 0o644); err != nil {
			return err
		}
	}
	return nil
}
