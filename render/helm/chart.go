// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"bytes"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"time"

	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/ignore"

	"github.com/leatdev/leat/render"
)

// load returns the chart in a folder, without the files that its .helmignore names.
func load(files *render.Files, folder string, limits render.Limits) (*chart.Chart, error) {
	name := path.Join(folder, render.ChartFile)
	if _, ok := files.Get(name); !ok {
		return nil, &render.Error{Path: name, Cause: fmt.Errorf("no such file in the bundle; path has to name the folder of a chart")}
	}
	rules, err := ignoreRules(files, path.Join(folder, ignore.HelmIgnore))
	if err != nil {
		return nil, err
	}
	limits = limits.WithDefaults()
	all := unpacker{limits: limits, room: limits.Bytes}
	for _, file := range files.Below(folder) {
		inside := strings.TrimPrefix(file, folder+"/")
		if isIgnored(rules, archiveOf(inside)) {
			continue
		}
		content, _ := files.Get(file)
		if err := all.add(file, inside, content); err != nil {
			return nil, err
		}
	}
	loaded, err := loader.LoadFiles(all.files)
	if err != nil {
		return nil, &render.Error{Path: name, Cause: fmt.Errorf("read chart: %w", err)}
	}
	// Helm decides by the version which loader reads a chart, and its loader of v1 and v2 reads any.
	if metadata := loaded.Metadata; metadata != nil && metadata.APIVersion != chart.APIVersionV1 && metadata.APIVersion != chart.APIVersionV2 {
		return nil, &render.Error{Path: name, Cause: fmt.Errorf("has apiVersion %q; Helm renders charts of v1 and v2", render.Excerpt(metadata.APIVersion))}
	}
	return loaded, nil
}

func ignoreRules(files *render.Files, name string) (*ignore.Rules, error) {
	content, _ := files.Get(name)
	rules, err := ignore.Parse(bytes.NewReader(content))
	if err != nil {
		return nil, &render.Error{Path: name, Cause: err}
	}
	rules.AddDefaults()
	return rules, nil
}

// archiveOf returns the archive that a file was unpacked from before it came into the tree, or else the
// file itself. The hub packs dependencies so. Helm applies a chart's .helmignore to the archives in its
// folder charts, and not to what these hold.
func archiveOf(inside string) string {
	name, isDependency := strings.CutPrefix(inside, "charts/")
	folder, _, isBelow := strings.Cut(name, "/")
	archive, isUnpacked := strings.CutSuffix(folder, unpacked)
	if !isDependency || !isBelow || !isUnpacked || path.Ext(archive) != ".tgz" {
		return inside
	}
	return "charts/" + archive
}

// isIgnored reports whether the rules match a file or one of the folders above it.
func isIgnored(rules *ignore.Rules, name string) bool {
	for end := range name + "/" {
		if end == len(name) {
			return rules.Ignore(name, entry{name: path.Base(name)})
		}
		if name[end] == '/' && rules.Ignore(name[:end], entry{name: path.Base(name[:end]), folder: true}) {
			return true
		}
	}
	return false
}

// entry is a file or a folder, for the rules of an ignore file.
type entry struct {
	name   string
	folder bool
}

// Name implements fs.FileInfo.
func (e entry) Name() string { return e.name }

// Size implements fs.FileInfo.
func (entry) Size() int64 { return 0 }

// Mode implements fs.FileInfo.
func (e entry) Mode() fs.FileMode {
	if e.folder {
		return fs.ModeDir
	}
	return 0
}

// ModTime implements fs.FileInfo.
func (entry) ModTime() time.Time { return time.Time{} }

// IsDir implements fs.FileInfo.
func (e entry) IsDir() bool { return e.folder }

// Sys implements fs.FileInfo.
func (entry) Sys() any { return nil }

// words are the words that a chart's files mention.
type words struct {
	capabilities bool // facts and API versions of the cluster
	lookup       bool // the function of that name
	generators   bool // a function that does not always return the same
}

// wordsOf looks for words in all files of a chart and its dependencies, and in the values, which
// may hold templates, too. Finding a word that is not used as such is harmless.
func wordsOf(c *chart.Chart, values map[string]any) words {
	var found words
	for _, file := range c.Raw {
		found.look(file.Data)
	}
	found.look([]byte(fmt.Sprint(values)))
	for _, dependency := range c.Dependencies() {
		below := wordsOf(dependency, nil)
		found = words{
			capabilities: found.capabilities || below.capabilities,
			lookup:       found.lookup || below.lookup,
			generators:   found.generators || below.generators,
		}
	}
	return found
}

func (w *words) look(text []byte) {
	w.capabilities = w.capabilities || bytes.Contains(text, []byte("Capabilities"))
	w.lookup = w.lookup || bytes.Contains(text, []byte("lookup"))
	w.generators = w.generators || generatorWord.Match(text)
}
