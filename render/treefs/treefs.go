// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package treefs shows the files of a service's tree to libraries that read an fs.FS.
package treefs

import (
	"bytes"
	"cmp"
	"io"
	"io/fs"
	"path"
	"slices"
	"time"

	"github.com/leatdev/leat/render"
)

// FS is a read-only file system. It is safe for concurrent use. Every file and folder has the same
// mode and time, so that nothing can depend on them.
type FS struct {
	files   *render.Files
	folders map[string][]fs.DirEntry // by their path, "." for the root; sorted
}

var (
	_ fs.ReadDirFS  = (*FS)(nil)
	_ fs.ReadFileFS = (*FS)(nil)
	_ fs.StatFS     = (*FS)(nil)
)

// New returns the file system of the files. A file whose name also belongs to a folder is hidden by
// the folder, and files whose names fs.ValidPath rejects do not exist.
func New(files *render.Files) *FS {
	f := &FS{files: files, folders: map[string][]fs.DirEntry{".": nil}}
	for _, name := range files.Below("") {
		if !fs.ValidPath(name) {
			continue
		}
		content, _ := files.Get(name)
		f.add(path.Dir(name), info{name: path.Base(name), size: int64(len(content))})
	}
	for folder, entries := range f.folders {
		slices.SortStableFunc(entries, func(a, b fs.DirEntry) int { // folders before files of the same name
			return cmp.Or(cmp.Compare(a.Name(), b.Name()), -cmp.Compare(a.Type(), b.Type()))
		})
		f.folders[folder] = slices.CompactFunc(entries, func(a, b fs.DirEntry) bool { return a.Name() == b.Name() })
	}
	return f
}

// add adds an entry to a folder, and the folder to the one above it.
func (f *FS) add(folder string, entry info) {
	entries, known := f.folders[folder]
	f.folders[folder] = append(entries, entry)
	if !known && folder != "." {
		f.add(path.Dir(folder), info{name: path.Base(folder), isFolder: true})
	}
}

// Open implements fs.FS.
func (f *FS) Open(name string) (fs.File, error) {
	stat, err := f.Stat(name)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	if stat.IsDir() {
		return &folder{info: stat, entries: f.folders[name]}, nil
	}
	content, _ := f.files.Get(name)
	return &file{info: stat, Reader: bytes.NewReader(content)}, nil
}

// Stat implements fs.StatFS.
func (f *FS) Stat(name string) (fs.FileInfo, error) {
	if fs.ValidPath(name) {
		if _, isFolder := f.folders[name]; isFolder {
			return info{name: path.Base(name), isFolder: true}, nil
		}
		if content, found := f.files.Get(name); found {
			return info{name: path.Base(name), size: int64(len(content))}, nil
		}
	}
	return nil, &fs.PathError{Op: "stat", Path: name, Err: fs.ErrNotExist}
}

// ReadDir implements fs.ReadDirFS.
func (f *FS) ReadDir(name string) ([]fs.DirEntry, error) {
	entries, isFolder := f.folders[name]
	if !isFolder {
		return nil, &fs.PathError{Op: "readdir", Path: name, Err: fs.ErrNotExist}
	}
	return slices.Clone(entries), nil
}

// ReadFile implements fs.ReadFileFS.
func (f *FS) ReadFile(name string) ([]byte, error) {
	stat, err := f.Stat(name)
	if err != nil || stat.IsDir() {
		return nil, &fs.PathError{Op: "read", Path: name, Err: fs.ErrNotExist}
	}
	content, _ := f.files.Get(name)
	return slices.Clone(content), nil
}

// info describes a file or a folder.
type info struct {
	name     string
	size     int64
	isFolder bool
}

const (
	fileMode   = fs.FileMode(0o444)
	folderMode = fs.ModeDir | 0o555
)

func (i info) Name() string               { return i.name }
func (i info) Size() int64                { return i.size }
func (i info) Type() fs.FileMode          { return i.Mode().Type() }
func (i info) ModTime() time.Time         { return time.Unix(0, 0).UTC() }
func (i info) IsDir() bool                { return i.isFolder }
func (i info) Sys() any                   { return nil }
func (i info) Info() (fs.FileInfo, error) { return i, nil }

func (i info) Mode() fs.FileMode {
	if i.isFolder {
		return folderMode
	}
	return fileMode
}

// file is an open file.
type file struct {
	*bytes.Reader
	info fs.FileInfo
}

func (f *file) Stat() (fs.FileInfo, error) { return f.info, nil }
func (f *file) Close() error               { return nil }

// folder is an open folder.
type folder struct {
	info    fs.FileInfo
	entries []fs.DirEntry // not read yet
}

func (f *folder) Stat() (fs.FileInfo, error) { return f.info, nil }
func (f *folder) Close() error               { return nil }

// Read implements fs.File.
func (f *folder) Read([]byte) (int, error) {
	return 0, &fs.PathError{Op: "read", Path: f.info.Name(), Err: fs.ErrInvalid}
}

// ReadDir implements fs.ReadDirFile.
func (f *folder) ReadDir(n int) ([]fs.DirEntry, error) {
	if n <= 0 || n > len(f.entries) {
		if n > 0 && len(f.entries) == 0 {
			return nil, io.EOF
		}
		n = len(f.entries)
	}
	entries := slices.Clone(f.entries[:n])
	f.entries = f.entries[n:]
	return entries, nil
}
