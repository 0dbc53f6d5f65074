// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package commitpack makes a commit that gives files of another commit new content, and the pack
// that brings it to a repository that has the other one.
//
// Only regular files that exist are changed: no file is added, removed or made executable, and
// nothing is written through a symbolic link, into a submodule or into a folder named .git. Every
// tree on the way is encoded again first, and has to have its own name then: a tree that Git would
// write otherwise today is refused, so that nothing but the files changes.
//
// No blob is read, so that a partial mirror needs nothing from its upstream. The objects are named
// by SHA-1 or SHA-256, as the base is. The package sends nothing and keeps nothing.
package commitpack

import (
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"slices"
	"strings"
	"time"

	"github.com/leatdev/leat/services/gitcache/internal/content"
)

// Params describe a commit.
type Params struct {
	// Base is the id of the parent.
	Base string
	// Files are the new contents by path.
	Files map[string][]byte
	// Name and Email are the author and the committer. They hold no <, > and line breaks.
	Name, Email string
	Time        time.Time
	// Message is valid UTF-8 without NUL bytes.
	Message string
}

// Commit is a new commit.
type Commit struct {
	// ID is its name, or Base if the files have the contents already.
	ID string
	// Changed are the blobs of the files whose content differs, by path. Empty: there is nothing to
	// commit.
	Changed map[string]Blobs
	// Pack holds the objects that Base does not lead to. Empty if nothing differs.
	Pack []byte
}

// Blobs are the ids of a file's content.
type Blobs struct{ Before, After string }

// FileError is a path that cannot be written.
type FileError struct {
	Path   string
	Reason string // ends a sentence that begins with the path
}

// Error implements error.
func (e *FileError) Error() string { return fmt.Sprintf("%q %s", e.Path, e.Reason) }

// CheckPath returns a *FileError if no repository may have a file at that path written.
func CheckPath(path string) error {
	clean, err := content.CleanFolder(path)
	if err != nil || clean == "" || clean != path {
		return &FileError{path, "is not the path of a file, relative to the root of the repository"}
	}
	for element := range strings.SplitSeq(path, "/") {
		if strings.EqualFold(element, ".git") {
			return &FileError{path, "lies in a folder of Git's own"}
		}
	}
	return nil
}

// Make makes the commit. Errors: *FileError, and the reader's.
func Make(ctx context.Context, r content.Reader, p Params) (Commit, error) {
	root, err := r.Tree(ctx, p.Base, "")
	if err != nil {
		return Commit{}, err
	}
	m := &maker{reader: r, digits: len(p.Base), commit: Commit{Changed: map[string]Blobs{}}}
	var files []file
	for path, text := range p.Files {
		if err := CheckPath(path); err != nil {
			return Commit{}, err
		}
		files = append(files, file{path: path, rest: path, text: text})
	}
	slices.SortFunc(files, func(a, b file) int { return strings.Compare(a.path, b.path) }) // so that errors are always the same
	tree, err := m.change(ctx, root, files)
	if err != nil {
		return Commit{}, err
	}
	if len(m.commit.Changed) == 0 {
		m.commit.ID = p.Base
		return m.commit, nil
	}
	m.commit.ID = m.add(typeCommit, commitText(p, tree))
	m.commit.Pack, err = m.pack()
	return m.commit, err
}

// commitText returns a commit as Git stores it.
func commitText(p Params, tree string) []byte {
	who := fmt.Sprintf("%s <%s> %d +0000", p.Name, p.Email, p.Time.Unix())
	return fmt.Appendf(nil, "tree %s\nparent %s\nauthor %s\ncommitter %s\n\n%s\n", tree, p.Base, who, who, strings.TrimRight(p.Message, "\n"))
}

// file is a file to change below a folder.
type file struct {
	path string // from the root
	rest string // from the folder
	text []byte
}

// maker collects the new objects.
type maker struct {
	reader  content.Reader
	digits  int // of an id
	objects []object
	commit  Commit
}

// change returns the id of a tree with the files changed, which lie below it. Trees are as deep as
// the longest path, and readers bound that.
func (m *maker) change(ctx context.Context, tree string, files []file) (string, error) {
	entries, err := m.reader.List(ctx, tree)
	if err != nil {
		return "", err
	}
	if text, err := encodeTree(entries); err != nil || m.name(typeTree, text) != tree {
		return "", fmt.Errorf("%w: the tree %s", content.ErrMalformed, tree)
	}
	below := map[int][]file{} // by the index of the folder's entry
	var folders []int
	hasChanged := false
	for _, f := range files {
		first, rest, isBelow := strings.Cut(f.rest, "/")
		at := slices.IndexFunc(entries, func(e content.Entry) bool { return e.Name == first })
		switch {
		case at < 0:
			return "", &FileError{f.path, "does not exist"}
		case isBelow && entries[at].Kind != content.KindFolder:
			return "", &FileError{f.path, "does not lie in folders alone"}
		case isBelow:
			if len(below[at]) == 0 {
				folders = append(folders, at)
			}
			f.rest = rest
			below[at] = append(below[at], f)
			continue
		case entries[at].Kind != content.KindFile && entries[at].Kind != content.KindExecutable:
			return "", &FileError{f.path, "is not a regular file"}
		}
		before := entries[at].ID
		if after := m.name(typeBlob, f.text); after != before {
			entries[at].ID, hasChanged = m.add(typeBlob, f.text), true
			m.commit.Changed[f.path] = Blobs{Before: before, After: after}
		}
	}
	for _, at := range folders {
		id, err := m.change(ctx, entries[at].ID, below[at])
		if err != nil {
			return "", err
		}
		hasChanged = hasChanged || id != entries[at].ID
		entries[at].ID = id
	}
	if !hasChanged {
		return tree, nil
	}
	text, err := encodeTree(entries)
	if err != nil {
		return "", err
	}
	return m.add(typeTree, text), nil
}

// modes are the modes of entries, as trees have them.
var modes = map[content.Kind]string{
	content.KindFile: "100644", content.KindExecutable: "100755", content.KindSymlink: "120000", content.KindSubmodule: "160000",
	content.KindFolder: "40000",
}

// encodeTree returns a tree as Git stores it.
func encodeTree(entries []content.Entry) ([]byte, error) {
	var text []byte
	for _, e := range entries {
		id, err := hex.DecodeString(e.ID)
		if err != nil {
			return nil, fmt.Errorf("%w: the id %q", content.ErrMalformed, e.ID)
		}
		text = fmt.Appendf(text, "%s %s\x00", modes[e.Kind], e.Name)
		text = append(text, id...)
	}
	return text, nil
}

// newHash returns the hash of the repository.
func (m *maker) newHash() hash.Hash {
	if m.digits == 2*sha256.Size {
		return sha256.New()
	}
	return sha1.New()
}

// name returns the id of an object.
func (m *maker) name(kind objectType, text []byte) string {
	h := m.newHash()
	fmt.Fprintf(h, "%s %d\x00", kind, len(text))
	h.Write(text)
	return hex.EncodeToString(h.Sum(nil))
}

// add keeps an object for the pack, and returns its id.
func (m *maker) add(kind objectType, text []byte) string {
	id := m.name(kind, text)
	if !slices.ContainsFunc(m.objects, func(o object) bool { return o.id == id }) {
		m.objects = append(m.objects, object{id, kind, text})
	}
	return id
}
