// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package artifact

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/leatdev/leat/internal/contract/bundle"
	"github.com/leatdev/leat/services/gitcache/internal/content"
)

// File is a file or a symbolic link of an artifact. The content of a link is its target.
type File struct {
	Name string       `json:"n"`
	Kind content.Kind `json:"k,omitempty"` // of a file, an executable or a symbolic link
	Size int64        `json:"s"`
	Sum  string       `json:"h"` // SHA-256 of the content, 64 digits
}

// Listing lists the content of an artifact. The content of its files lies one after the other in
// the order of their names. It is immutable.
type Listing struct {
	files   []File
	offsets []int64
	total   int64
	root    string
	trees   map[string][]content.Entry // by id
	folders map[string]string          // path → id of its tree
	bySum   map[string][]int           // rising
}

// NewListing returns the listing of files, which it puts in order. The errors are *bundle.EntryError
// for a name that comes twice, or lies below a file.
func NewListing(files []File) (*Listing, error) {
	l := &Listing{
		files: slices.Clone(files), trees: map[string][]content.Entry{}, folders: map[string]string{}, bySum: map[string][]int{},
	}
	slices.SortFunc(l.files, func(a, b File) int { return strings.Compare(a.Name, b.Name) })
	l.offsets = make([]int64, len(l.files))
	var stems []string // names that the latest one begins with, each a prefix of the next
	for i, f := range l.files {
		if i > 0 && l.files[i-1].Name == f.Name {
			return nil, &bundle.EntryError{Name: f.Name, Reason: "comes twice"}
		}
		for len(stems) > 0 && !strings.HasPrefix(f.Name, stems[len(stems)-1]) {
			stems = stems[:len(stems)-1]
		}
		for _, stem := range stems {
			if f.Name[len(stem)] == '/' {
				return nil, &bundle.EntryError{Name: f.Name, Reason: "lies below a file"}
			}
		}
		stems = append(stems, f.Name)
		l.offsets[i] = l.total
		l.total += f.Size
		l.bySum[f.Sum] = append(l.bySum[f.Sum], i)
	}
	l.root = l.addFolder(l.files, "")
	return l, nil
}

// Files returns the files in the order of their names. The caller does not change them.
func (l *Listing) Files() []File { return l.files }

// Size returns the bytes of all files together.
func (l *Listing) Size() int64 { return l.total }

// Folder returns the id of the tree at a path, as content.CleanFolder returns it.
func (l *Listing) Folder(path string) (id string, ok bool) {
	id, ok = l.folders[path]
	return id, ok
}

// Entries returns the entries of a tree in Git's order. The caller does not change them.
func (l *Listing) Entries(tree string) (entries []content.Entry, ok bool) {
	entries, ok = l.trees[tree]
	return entries, ok
}

// Find returns the file of that name.
func (l *Listing) Find(name string) (File, bool) {
	i, ok := slices.BinarySearchFunc(l.files, name, func(f File, name string) int { return strings.Compare(f.Name, name) })
	if !ok {
		return File{}, false
	}
	return l.files[i], true
}

// Locate returns where content with that sum lies: of several places the first that is not before
// at, else the first.
func (l *Listing) Locate(sum string, at int64) (offset, size int64, ok bool) {
	places := l.bySum[sum]
	if len(places) == 0 {
		return 0, 0, false
	}
	i, _ := slices.BinarySearchFunc(places, at, func(place int, at int64) int {
		if l.offsets[place] < at {
			return -1
		}
		return 1
	})
	if i == len(places) {
		i = 0
	}
	return l.offsets[places[i]], l.files[places[i]].Size, true
}

// addFolder adds the tree of a folder, whose files all begin with prefix, and returns its id. Files
// in the order of their names make entries in Git's order.
func (l *Listing) addFolder(files []File, prefix string) string {
	var entries []content.Entry
	for len(files) > 0 {
		name := files[0].Name[len(prefix):]
		first, _, isBelow := strings.Cut(name, "/")
		if !isBelow {
			entries = append(entries, content.Entry{Name: name, Kind: files[0].Kind, ID: files[0].Sum})
			files = files[1:]
			continue
		}
		folder := prefix + first + "/"
		end := 1
		for end < len(files) && strings.HasPrefix(files[end].Name, folder) {
			end++
		}
		entries = append(entries, content.Entry{Name: first, Kind: content.KindFolder, ID: l.addFolder(files[:end], folder)})
		files = files[end:]
	}
	id := treeID(entries)
	l.trees[id] = entries
	l.folders[strings.TrimSuffix(prefix, "/")] = id
	return id
}

// treeID hashes the entries of a tree so that no two lists hash alike.
func treeID(entries []content.Entry) string {
	hash := sha256.New()
	var buffer []byte
	add := func(text string) {
		buffer = append(binary.AppendUvarint(buffer, uint64(len(text))), text...)
	}
	add("leat.artifact.tree.v1")
	for _, e := range entries {
		buffer = binary.AppendUvarint(buffer, uint64(e.Kind))
		add(e.Name)
		add(e.ID)
		_, _ = hash.Write(buffer)
		buffer = buffer[:0]
	}
	_, _ = hash.Write(buffer)
	return hex.EncodeToString(hash.Sum(nil))
}
