// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package jsonnet

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/google/go-jsonnet"

	"github.com/leatdev/leat/render"
)

// defaultLibraries are the folders that hold libraries if the step names none, the first ones first.
var defaultLibraries = []string{"lib", "vendor"}

// importer implements jsonnet.Importer with the files of a tree.
type importer struct {
	ctx       context.Context //nolint:containedctx // the library's interface passes none
	files     *render.Files
	libraries []string // the first ones win
	contents  map[string]jsonnet.Contents
}

func newImporter(ctx context.Context, files *render.Files, libraries []string) *importer {
	return &importer{ctx: ctx, files: files, libraries: libraries, contents: map[string]jsonnet.Contents{}}
}

// libraries returns the folders in which imports are looked up, the first ones first. Of named ones
// the last is the first, as for the jsonnet program's --jpath. By default they are lib and vendor
// of the step's folder, and then the same of every folder above it: programs that fetch libraries
// put them at the root of a repository.
func libraries(folder string, named []string) []string {
	var all []string
	if len(named) == 0 {
		for {
			for _, name := range defaultLibraries {
				all = append(all, path.Join(folder, name))
			}
			if folder == "" || folder == "." {
				return all
			}
			folder = strings.TrimPrefix(path.Dir(folder), ".")
		}
	}
	for i := len(named) - 1; i >= 0; i-- {
		all = append(all, path.Join(folder, named[i]))
	}
	return all
}

// Import implements jsonnet.Importer. A relative path begins at the folder of the importing file.
func (i *importer) Import(importedFrom, importedPath string) (jsonnet.Contents, string, error) {
	if i.ctx.Err() != nil {
		return jsonnet.Contents{}, "", context.Cause(i.ctx)
	}
	if path.IsAbs(importedPath) {
		return jsonnet.Contents{}, "", fmt.Errorf("cannot import %q: a file of the service's tree has a relative path", importedPath)
	}
	var looked []string
	leaves := false
	for _, folder := range append([]string{path.Dir(importedFrom)}, i.libraries...) {
		name := path.Join(folder, importedPath)
		if name == ".." || strings.HasPrefix(name, "../") {
			leaves = true
			continue
		}
		if contents, found := i.read(name); found {
			return contents, name, nil
		}
		looked = append(looked, name)
	}
	return jsonnet.Contents{}, "", notFound(importedPath, looked, leaves)
}

// read returns the same Contents for every import of a file, which the library demands.
func (i *importer) read(name string) (jsonnet.Contents, bool) {
	if contents, known := i.contents[name]; known {
		return contents, true
	}
	text, found := i.files.Get(name)
	if !found {
		return jsonnet.Contents{}, false
	}
	contents := jsonnet.MakeContentsRaw(text)
	i.contents[name] = contents
	return contents, true
}

func notFound(importedPath string, looked []string, leaves bool) error {
	text := fmt.Sprintf("cannot import %q", importedPath)
	if leaves {
		text += ": it leads out of the service's tree, and nothing there can be read"
		if len(looked) == 0 {
			return errors.New(text)
		}
	}
	return fmt.Errorf("%s: no such file; looked for %s", text, strings.Join(looked, ", "))
}
