// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kustomize

import (
	"bytes"
	"errors"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"slices"

	"sigs.k8s.io/kustomize/kyaml/filesys"

	"github.com/leatdev/leat/render"
)

// errReadOnly is the error of operations that would change a bundle.
var errReadOnly = errors.New("the bundle is read-only")

// fileSystem gives kustomize the files of a bundle below mount, under exactly their names.
// Kustomize's own file system in memory rejects names with blanks, plus signs or parentheses, which
// any operating system allows, and copies every file. It is safe for concurrent use.
type fileSystem struct {
	files   map[string][]byte          // by absolute path
	folders map[string]map[string]bool // by absolute path: the names in it
}

var _ filesys.FileSystem = fileSystem{}

func newFileSystem(files *render.Files) fileSystem {
	names := files.Below("")
	f := fileSystem{files: make(map[string][]byte, len(names)), folders: map[string]map[string]bool{mount: {}}}
	for _, name := range names {
		content, _ := files.Get(name)
		full := path.Join(mount, name)
		f.files[full] = content
		for full != "/" {
			folder, base := path.Split(full)
			folder = path.Clean(folder)
			if f.folders[folder] == nil {
				f.folders[folder] = map[string]bool{}
			}
			f.folders[folder][base] = true
			full = folder
		}
	}
	return f
}

// absolute returns a path as this file system names it.
func absolute(name string) string { return path.Join("/", filepath.ToSlash(name)) }

// notFound returns the error of a path that is not in the bundle.
func notFound(op, name string) error {
	return &fs.PathError{Op: op, Path: name, Err: fs.ErrNotExist}
}

// IsDir implements filesys.FileSystem.
func (f fileSystem) IsDir(name string) bool {
	_, isFolder := f.folders[absolute(name)]
	return isFolder
}

// Exists implements filesys.FileSystem.
func (f fileSystem) Exists(name string) bool {
	_, isFile := f.files[absolute(name)]
	return isFile || f.IsDir(name)
}

// ReadFile implements filesys.FileSystem. The content belongs to the caller.
func (f fileSystem) ReadFile(name string) ([]byte, error) {
	content, isFile := f.files[absolute(name)]
	if !isFile {
		return nil, notFound("open", name)
	}
	return bytes.Clone(content), nil
}

// ReadDir implements filesys.FileSystem.
func (f fileSystem) ReadDir(name string) ([]string, error) {
	names, isFolder := f.folders[absolute(name)]
	if !isFolder {
		return nil, notFound("readdir", name)
	}
	return slices.Sorted(maps.Keys(names)), nil
}

// CleanedAbs implements filesys.FileSystem. There are no symbolic links: Files has resolved them.
func (f fileSystem) CleanedAbs(name string) (filesys.ConfirmedDir, string, error) {
	full := absolute(name)
	if f.IsDir(full) {
		return filesys.ConfirmedDir(full), "", nil
	}
	if !f.Exists(full) {
		return "", "", notFound("find", name)
	}
	folder, base := path.Split(full)
	return filesys.ConfirmedDir(path.Clean(folder)), base, nil
}

// Glob implements filesys.FileSystem: files only, as kustomize's own does.
func (f fileSystem) Glob(pattern string) ([]string, error) {
	var found []string
	for _, name := range slices.Sorted(maps.Keys(f.files)) {
		matches, err := path.Match(absolute(pattern), name)
		if err != nil {
			return nil, err
		}
		if matches {
			found = append(found, name)
		}
	}
	return found, nil
}

// Walk implements filesys.FileSystem. A build walks nothing.
func (fileSystem) Walk(string, filepath.WalkFunc) error { return errors.ErrUnsupported }

// Open implements filesys.FileSystem. A build reads files whole.
func (fileSystem) Open(string) (filesys.File, error) { return nil, errors.ErrUnsupported }

// Create implements filesys.FileSystem.
func (fileSystem) Create(string) (filesys.File, error) { return nil, errReadOnly }

// Mkdir implements filesys.FileSystem.
func (fileSystem) Mkdir(string) error { return errReadOnly }

// MkdirAll implements filesys.FileSystem.
func (fileSystem) MkdirAll(string) error { return errReadOnly }

// RemoveAll implements filesys.FileSystem.
func (fileSystem) RemoveAll(string) error { return errReadOnly }

// WriteFile implements filesys.FileSystem.
func (fileSystem) WriteFile(string, []byte) error { return errReadOnly }
