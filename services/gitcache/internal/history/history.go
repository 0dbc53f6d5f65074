// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package history reads what a mirror holds: commits, trees, files, history and changes, for every
// back end.
//
// A [Reader] needs little of a repository, see the port [Objects]: an object by its name, an
// object's kind, and the names that begin with some digits. Package pack implements it for packs on
// disk.
//
// Its promises:
//
//   - An object matches its name, because Objects verifies that. The content of a commit, a
//     tag or a tree mean was chosen by their author, so the parsers are strict and fail with
//     [content.ErrMalformed]. An object that another one names and that is absent is
//     [content.ErrDamaged]. The two differ for the caller: a damaged mirror is fetched again, and a
//     malformed object would come back as it is.
//   - Every call is bounded. A commit, tag or tree has at most maxWhole bytes, trees are at most
//     maxDepth levels deep, and Log visits no more than maxScanned commits after the ones that it
//     skips. The context is asked before every object.
//   - The order of history is the order of "git log": by the committer's time, newest first; of one
//     time, as parents name them.
//
// A reader has one state, open, until Close, and no lock: it is for one goroutine. It follows no
// ref, knows nothing of selections, and writes nothing.
package history

import (
	"context"
	"errors"
	"fmt"

	"github.com/leatdev/leat/services/gitcache/internal/content"
	"github.com/leatdev/leat/services/gitcache/internal/pack"
)

const (
	// maxWhole bounds a commit, a tag and a tree, which are read into memory.
	maxWhole = 256 << 20
	// maxBlob bounds a blob that is read into memory. Larger ones are streamed.
	maxBlob = 4 << 20
	// maxDepth bounds how deep trees may be nested. Content that needs more is hostile.
	maxDepth = 256
)

// The kinds of objects, as Git calls them. They are plain words and not a type of their own:
// package pack returns them, and errors repeat them.
const (
	kindCommit = "commit"
	kindTag    = "tag"
	kindTree   = "tree"
	kindBlob   = "blob"
)

// Objects holds the objects of one repository, as they were when it was opened. It is for one
// goroutine. An id has hexadecimal digits, 40 or 64 of them.
type Objects interface {
	// Kind returns an object's kind, and "" for an object that is not there.
	Kind(id string) (string, error)
	// Read returns an object of at most limit bytes. Errors: pack.ErrNotFound, pack.ErrTooLarge,
	// pack.ErrMalformed if the object does not match its name, and the disk's.
	Read(id string, limit int64) (pack.Object, error)
	// Prefixed returns all names that begin with these digits, rising, each once.
	Prefixed(prefix string) []string
	Close() error
}

var _ Objects = (*pack.Reader)(nil)

// Params set how a repository is read.
type Params struct {
	// Partial: the repository may lack blobs.
	Partial bool
	// Large opens a blob that is too large to be held in memory. It is known to be there. The result
	// is valid until the reader is asked for anything else.
	Large func(ctx context.Context, id string) (content.File, error)
}

// Reader reads one repository. It implements [content.Reader]. Its methods that take an id from a
// caller report an absent object as not found; the ones that follow an id inside the repository
// report it as damage.
type Reader struct {
	objects Objects
	params  Params
}

var _ content.Reader = (*Reader)(nil)

// New returns a reader of objects, which it closes.
func New(objects Objects, p Params) *Reader { return &Reader{objects: objects, params: p} }

// Open returns a reader of the packs that a bare repository has now. Packs that are added later are
// not seen, and packs that are removed later can still be read.
func Open(dir string, p Params) (*Reader, error) {
	packs, err := pack.Open(dir)
	if err != nil {
		return nil, damaged(err)
	}
	return New(packs, p), nil
}

// Close implements [content.Reader].
func (r *Reader) Close() error { return r.objects.Close() }

// errKind is an object of another kind than the one that was asked for.
var errKind = errors.New("object is of another kind")

// read returns the bytes of an object of that kind. Errors: pack.ErrNotFound, errKind, and others.
func (r *Reader) read(ctx context.Context, id, kind string) ([]byte, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	object, err := r.objects.Read(id, maxWhole)
	switch {
	case errors.Is(err, pack.ErrTooLarge):
		return nil, fmt.Errorf("%w: %s %s has more than %d bytes", content.ErrMalformed, kind, id, int64(maxWhole))
	case err != nil:
		return nil, damaged(err)
	case object.Kind != kind:
		return nil, fmt.Errorf("%s is a %s, not a %s: %w", id, object.Kind, kind, errKind)
	}
	return object.Data, nil
}

// readNamed is read for an object that another one names, so that its absence is damage. A commit
// can name a blob as its tree: a wrong kind is the author's doing.
func (r *Reader) readNamed(ctx context.Context, id, kind string) ([]byte, error) {
	data, err := r.read(ctx, id, kind)
	switch {
	case errors.Is(err, errKind):
		return nil, errors.Join(content.ErrMalformed, err)
	case errors.Is(err, pack.ErrNotFound):
		return nil, errors.Join(content.ErrDamaged, err)
	}
	return data, err
}

// damaged marks bytes that do not match their name.
func damaged(err error) error {
	if errors.Is(err, pack.ErrMalformed) {
		return errors.Join(content.ErrDamaged, err)
	}
	return err
}
