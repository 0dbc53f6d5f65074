// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/leatdev/leat/internal/contract/bundle"
)

// Files are the files of one bundle in memory, by their slash-separated path from the bundle's
// root. Symbolic links are resolved: a target can be read under the link's name. Files are
// immutable after Read and safe for concurrent use.
type Files struct {
	content  map[string][]byte
	origin   map[string]string // by the name through a link: the target
	dangling map[string]string // by the name of a link to nothing: the target
}

// maxHops bounds a chain of symbolic links.
const maxHops = 16

// Read reads a bundle to its end, within the limits on names and bytes. It returns an *Error or a
// *LimitError about the content of the bundle, and other errors if the bundle cannot be read.
func Read(r *bundle.Reader, limits Limits) (*Files, error) {
	limits = limits.WithDefaults()
	files := &Files{content: map[string][]byte{}, origin: map[string]string{}, dangling: map[string]string{}}
	links := map[string]string{}
	for room := limits.Bytes; ; {
		entry, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("read bundle: %w", err)
		}
		if entry.IsSymlink() {
			links[entry.Name] = path.Join(path.Dir(entry.Name), entry.Target)
			continue
		}
		content, err := io.ReadAll(io.LimitReader(r, room+1))
		if err != nil {
			return nil, fmt.Errorf("read bundle: %w", err)
		}
		if room -= int64(len(content)); room < 0 {
			return nil, exceeded(LimitBytes, "the source has more than %s; select less of it with folders, or leave files out with .leatignore", sizeText(limits.Bytes))
		}
		files.content[entry.Name] = content
	}
	return files, files.follow(links, limits.Names)
}

// Find calls see with each file that contains the text, in the order of their paths, until it
// returns false. see must not change the content.
func (f *Files) Find(text []byte, see func(name string, content []byte) bool) {
	for _, name := range slices.Sorted(maps.Keys(f.content)) {
		if bytes.Contains(f.content[name], text) && !see(name, f.content[name]) {
			return
		}
	}
}

// NewFiles returns Files from a map from path to content, for callers that have no bundle. The map
// is not copied.
func NewFiles(content map[string][]byte) *Files {
	return &Files{content: content, origin: map[string]string{}}
}

// follow adds a second name for each file behind a link. It returns an error if there are more than
// most names.
func (f *Files) follow(links map[string]string, most int) error {
	own := slices.Sorted(maps.Keys(f.content))
	for _, link := range slices.Sorted(maps.Keys(links)) {
		target, err := resolve(links, links[link])
		if err != nil {
			return &Error{Path: link, Cause: err}
		}
		if !f.alias(link, target, own, most) {
			f.dangling[link] = target
		}
		if len(f.content) > most {
			return &LimitError{Path: link, Limit: LimitNames, Message: fmt.Sprintf("symbolic links lead to more than %d files", most)}
		}
	}
	return nil
}

// alias adds a second name for the file target, or for every file below the folder target. It stops
// once there are more than most names. own must be sorted. It reports false if the target is
// neither: a kustomization's reference to the link fails because the file does not exist.
func (f *Files) alias(link, target string, own []string, most int) bool {
	if _, isFile := slices.BinarySearch(own, target); isFile {
		f.name(link, target)
		return true
	}
	folder := target + "/"
	first, _ := slices.BinarySearch(own, folder)
	i := first
	for ; i < len(own) && strings.HasPrefix(own[i], folder) && len(f.content) <= most; i++ {
		f.name(path.Join(link, strings.TrimPrefix(own[i], folder)), own[i])
	}
	return i > first
}

// name adds a second name for a file, unless another file has that name.
func (f *Files) name(alias, name string) {
	if _, taken := f.content[alias]; !taken {
		f.content[alias], f.origin[alias] = f.content[name], name
	}
}

// resolve follows a path through links, also if a folder on the way is a link.
func resolve(links map[string]string, name string) (string, error) {
	for range maxHops {
		next, moved := step(links, name)
		if !moved {
			return name, nil
		}
		name = next
	}
	return "", fmt.Errorf("chain of symbolic links is longer than %d", maxHops)
}

// step replaces the first part of name that is a link.
func step(links map[string]string, name string) (string, bool) {
	for end := range name + "/" {
		if end < len(name) && name[end] != '/' {
			continue
		}
		if target, ok := links[name[:end]]; ok {
			return path.Join(target, name[end:]), true
		}
	}
	return name, false
}

// isBelow reports whether name is folder or in it. Everything is below "".
func isBelow(name, folder string) bool {
	return folder == "" || name == folder || strings.HasPrefix(name, folder+"/")
}

func isManifest(name string) bool {
	return slices.Contains([]string{".yaml", ".yml", ".json"}, path.Ext(name))
}
