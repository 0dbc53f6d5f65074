// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package content declares how the service reads what a mirror holds: commits, trees, files and
// history.
//
// Everything here is immutable: a commit id names the same content for ever. Refs, which move, are
// package mirror's.
package content

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

var (
	// ErrCommitNotFound means that the mirror holds no commit of that id.
	ErrCommitNotFound = errors.New("commit not found")
	// ErrPathNotFound is matched by every [*PathError].
	ErrPathNotFound = errors.New("path not found")
	// ErrDamaged means that the mirror lacks an object it must hold. The content has not changed;
	// the mirror has to be fetched again.
	ErrDamaged = errors.New("mirror is damaged")
	// ErrMalformed means that a commit, a tag or a tree is not what Git makes, or too large. It is
	// stored as it was made: fetching it again does not help.
	ErrMalformed = errors.New("malformed object")
)

// AbsentError reports that a partial mirror does not hold the content of files yet, or that a mirror
// of artifacts does not hold one of them.
type AbsentError struct {
	IDs []string // of blobs or artifacts, at least one
}

// Error implements error.
func (e *AbsentError) Error() string {
	return fmt.Sprintf("content has to be fetched first: %d, such as %s", len(e.IDs), e.IDs[0])
}

// PathError names a path that a commit does not have, as the caller asked for it. It matches
// [ErrPathNotFound].
type PathError struct {
	Path string
	Want string // "folder" or "file"
}

// Error implements error.
func (e *PathError) Error() string { return fmt.Sprintf("no such %s: %q", e.Want, e.Path) }

// AmbiguousError reports that several commits begin with the same digits. It matches
// [ErrCommitNotFound].
type AmbiguousError struct {
	Prefix string
	// Candidates are full ids, rising; at most [MaxCandidates], though there may be more.
	Candidates []string
}

// MaxCandidates bounds the ids that an [AmbiguousError] names.
const MaxCandidates = 8

// Error implements error.
func (e *AmbiguousError) Error() string {
	return fmt.Sprintf("%v: %s begins several: %s", ErrCommitNotFound, e.Prefix, strings.Join(e.Candidates, ", "))
}

// Is makes errors.Is(err, ErrCommitNotFound) true.
func (e *AmbiguousError) Is(target error) bool { return target == ErrCommitNotFound }

// Is makes errors.Is(err, ErrPathNotFound) true.
func (e *PathError) Is(target error) bool { return target == ErrPathNotFound }

// CleanFolder returns a folder's path in its one spelling: relative to the root, without "."
// elements and slashes at the ends; the root itself is "". An absolute path, an empty element and
// ".." are errors.
func CleanFolder(path string) (string, error) {
	if path == "" || path == "." || path == "./" {
		return "", nil
	}
	path = strings.TrimSuffix(strings.TrimPrefix(path, "./"), "/")
	for element := range strings.SplitSeq(path, "/") {
		switch element {
		case "", ".", "..":
			return "", fmt.Errorf("invalid path %q: it has an element %q", path, element)
		}
	}
	if strings.ContainsAny(path, "\x00\\") {
		return "", fmt.Errorf("invalid path %q: it has a backslash or a NUL byte", path)
	}
	return path, nil
}

// Inside reports whether the folder path is root or lies below it; both as CleanFolder returns
// them.
func Inside(path, root string) bool {
	return root == "" || path == root || strings.HasPrefix(path, root+"/")
}

// Commit describes one commit.
type Commit struct {
	ID          string
	Parents     []string
	AuthorName  string
	AuthorEmail string
	AuthorTime  time.Time
	CommitTime  time.Time
	Message     string
}

// ObjectKind is the kind of an [Object].
type ObjectKind string

// The kinds of objects, as Git calls them.
const (
	KindCommit ObjectKind = "commit"
	KindTag    ObjectKind = "tag"
)

// MaxObject bounds the bytes of an [Object]. Real messages are shorter.
const MaxObject = 4 << 20

// Object is a commit or an annotated tag, byte for byte, without the header that Git puts before it
// to make its id.
type Object struct {
	Kind ObjectKind
	Data []byte
}

// Kind is the kind of an [Entry].
type Kind int

// The kinds of entries.
const (
	KindFile Kind = iota
	KindExecutable
	KindSymlink
	KindSubmodule // a commit of another repository; it has no content here
	KindFolder
)

// Entry is one entry of a tree.
type Entry struct {
	Name string
	Kind Kind
	ID   string // of a blob or a tree; of a submodule, the commit in its own repository
}

// File is one open file or symbolic link.
type File struct {
	Size int64
	io.ReadCloser
}

// LogParams asks for a piece of history.
type LogParams struct {
	From  string // the commit to start at
	Path  string // only commits that change this path; "" for all
	Skip  int    // how many commits to leave out, counted without regard to Path
	Limit int    // at most how many to return
	Until string // the walk ends before this commit; "" for the beginning of the history
}

// Log is a piece of history, newest first.
type Log struct {
	Commits []Commit
	// Next is the Skip to continue with; 0 at the end of the history. A piece may be short, or empty,
	// before that.
	Next int
}

// ChangeKind is the kind of change of a path.
type ChangeKind int

// The kinds of changes.
const (
	Added ChangeKind = iota + 1
	Modified
	Deleted
)

// Change is a path that differs between two commits.
type Change struct {
	Path string
	Kind ChangeKind
}

// CompareParams asks which files differ between two commits.
type CompareParams struct {
	Base, Head string
	Path       string // only below this folder; "" for all
	After      string // only paths that come after this one
	Limit      int
}

// Opener opens mirrors for reading. It may be used concurrently; Open waits while too many readers
// are open.
type Opener interface {
	Open(ctx context.Context, uid string) (Reader, error)
}

// Reader reads one mirror as it was when the reader was opened. It is for one goroutine, which
// closes it soon: readers are counted. Errors of all methods: ErrCommitNotFound, *PathError,
// ErrDamaged, ErrMalformed, the context's. *AbsentError is one of Blob and File of a partial mirror,
// and of Tree, File and Compare of a mirror of artifacts.
type Reader interface {
	// Commit returns the commit of that id.
	Commit(ctx context.Context, id string) (Commit, error)
	// Expand returns the full id of the one commit whose id begins with prefix, lower-case
	// hexadecimal digits. Several: *AmbiguousError.
	Expand(ctx context.Context, prefix string) (string, error)
	// Object returns a commit or an annotated tag as it is stored; of an object that is neither, or
	// larger than [MaxObject], the zero Object. ErrCommitNotFound: there is no object of that id.
	Object(ctx context.Context, id string) (Object, error)
	// Tree returns the id of the tree that the commit holds at path, a folder. Where the commit names
	// an artifact that the mirror does not hold yet, the error is an *AbsentError.
	Tree(ctx context.Context, commit, path string) (string, error)
	// List returns the entries of a tree in Git's order: by name, as if the name of a folder ended
	// with a slash. Walking depth first therefore meets rising paths. It reads no blob.
	List(ctx context.Context, tree string) ([]Entry, error)
	// Blob opens the content of the file or symbolic link that a tree lists with that id. It is
	// valid until the reader is asked for anything else, and so is what File opens.
	Blob(ctx context.Context, id string) (File, error)
	// Absent returns which of the blobs a partial mirror does not hold yet, each once. Of any other
	// mirror it returns none: what that lacks is damage.
	Absent(ctx context.Context, ids []string) ([]string, error)
	// File opens the file that the commit holds at path.
	File(ctx context.Context, commit, path string) (File, error)
	// Log returns a piece of history.
	Log(ctx context.Context, p LogParams) (Log, error)
	// Compare returns changed paths, rising.
	Compare(ctx context.Context, p CompareParams) ([]Change, error)
	// Close gives the reader back.
	Close() error
}
