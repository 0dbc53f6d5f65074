// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

// Get returns the content of a file, which callers must not change.
func (f *Files) Get(name string) ([]byte, bool) {
	content, ok := f.content[name]
	return content, ok
}

// Below returns the sorted names of the files in a folder and below it, including those behind
// symbolic links. The empty folder is the root.
func (f *Files) Below(folder string) []string {
	var names []string
	for name := range f.content {
		if name != folder && isBelow(name, folder) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// HasFolder reports whether a file lies below the folder.
func (f *Files) HasFolder(name string) bool {
	for file := range f.content {
		if file != name && isBelow(file, name) {
			return true
		}
	}
	return false
}

// Folder cleans the name of a folder of the tree ("" for the root), and returns an *Error if it
// does not exist.
func (f *Files) Folder(name string) (string, error) {
	clean := strings.TrimPrefix(path.Clean("/"+name), "/")
	if clean == "" || f.HasFolder(clean) {
		return clean, nil
	}
	if _, ok := f.content[clean]; ok {
		return "", &Error{Path: name, Cause: errors.New("is a file, want a folder")}
	}
	return "", &Error{Path: name, Cause: errors.New("the bundle holds no such folder")}
}

// With returns the files and some more, which replace those of the same name.
func (f *Files) With(more map[string][]byte) *Files {
	if len(more) == 0 {
		return f
	}
	all := &Files{content: maps.Clone(f.content), origin: maps.Clone(f.origin), dangling: f.dangling}
	for name, content := range more {
		all.content[name] = content
		delete(all.origin, name)
	}
	return all
}

// Mounted is the content of one source, and the folder of the tree where it lies.
type Mounted struct {
	Files *Files
	// Mount is a folder of the tree. Empty: its root.
	Mount string
	// Origin names the source in messages.
	Origin string
}

// Mount returns the tree of several sources, within the limits on names and bytes. It returns an
// *Error if two of them have a path in common, with other bytes there.
func Mount(sources []Mounted, limits Limits) (*Files, error) {
	limits = limits.WithDefaults()
	tree := NewFiles(map[string][]byte{})
	tree.dangling = map[string]string{}
	from := map[string]string{}
	var size int64
	for _, s := range sources {
		prefix := strings.TrimPrefix(path.Clean("/"+s.Mount), "/")
		for _, inside := range slices.Sorted(maps.Keys(s.Files.content)) {
			name, content := path.Join(prefix, inside), s.Files.content[inside]
			if there, ok := tree.content[name]; ok && string(there) != string(content) {
				return nil, &Error{Path: name, Cause: fmt.Errorf("comes from %s and, with other content, from %s; mount them at different folders",
					from[name], s.Origin)}
			}
			tree.content[name], from[name] = content, s.Origin
		}
		for name, target := range s.Files.origin {
			tree.origin[path.Join(prefix, name)] = path.Join(prefix, target)
		}
		for name, target := range s.Files.dangling {
			tree.dangling[path.Join(prefix, name)] = path.Join(prefix, target)
		}
		if size += s.Files.Size(); size > limits.Bytes {
			return nil, exceeded(LimitBytes, "the sources together have more than %s; select less of them with folders", sizeText(limits.Bytes))
		}
		if len(tree.content) > limits.Names {
			return nil, exceeded(LimitNames, "the sources together have more than %d files; select less of them with folders", limits.Names)
		}
	}
	return tree, tree.checkFolders(from)
}

// checkFolders returns an *Error if a name is a file of one source and a folder of another.
func (f *Files) checkFolders(from map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(f.content)) {
		for folder := path.Dir(name); folder != "."; folder = path.Dir(folder) {
			if _, isFile := f.content[folder]; isFile {
				return &Error{Path: folder, Cause: fmt.Errorf("is a file of %s and a folder of %s; mount them at different folders",
					from[folder], from[name])}
			}
		}
	}
	return nil
}
