// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package artifactstore

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/leatdev/leat/internal/contract/bundle"
	"github.com/leatdev/leat/services/gitcache/internal/artifact"
	"github.com/leatdev/leat/services/gitcache/internal/content"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// Open implements [content.Opener]. A commit is the text of an [artifact.ID].
func (s *Store) Open(ctx context.Context, uid string) (content.Reader, error) {
	if err := s.readers.Acquire(ctx, 1); err != nil {
		return nil, context.Cause(ctx)
	}
	h, ok := s.enter(uid)
	if !ok {
		s.readers.Release(1)
		return nil, mirror.ErrNoMirror
	}
	return &reader{store: s, home: filepath.Join(s.params.Dir, uid), held: h}, nil
}

// reader reads one mirror. It has at most one artifact open.
type reader struct {
	store *Store
	home  string
	held  held
	open  *opened // the artifact that was asked for last; nil: none
}

// opened is an artifact that is being read.
type opened struct {
	name    string
	file    *os.File
	listing *artifact.Listing
	begin   int64         // of the content, in the file
	plain   io.ReadCloser // the content from at on; nil before anything was read
	at      int64
}

func (o *opened) close() error {
	if o == nil {
		return nil
	}
	return errors.Join(o.stop(), o.file.Close())
}

func (o *opened) stop() error {
	if o.plain == nil {
		return nil
	}
	err := o.plain.Close()
	o.plain = nil
	return err
}

// use opens an artifact by the name of its file. The error matches fs.ErrNotExist where it is gone.
func (r *reader) use(name string) (*opened, error) {
	if r.open != nil && r.open.name == name {
		return r.open, nil
	}
	path := filepath.Join(r.home, name)
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	noteRead(f, time.Now())
	o := &opened{name: name, file: f}
	if o.listing, o.begin, err = r.store.listingOf(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	_ = r.open.close() // was only read
	r.open = o
	return o, nil
}

// listingOf returns the listing of an artifact, from memory where it was read a moment ago.
func (s *Store) listingOf(f *os.File) (*artifact.Listing, int64, error) {
	if l, ok := s.listings.Get(f.Name()); ok {
		begin, err := contentBegin(f)
		return l, begin, err
	}
	l, begin, err := readListing(f)
	if err == nil {
		s.listings.Add(f.Name(), l)
	}
	return l, begin, err
}

// artifact opens the artifact that a commit names. Where it is not here the error is a
// *content.AbsentError.
func (r *reader) artifact(commit string) (*opened, error) {
	id, err := artifact.ParseID(commit)
	if err != nil {
		return nil, content.ErrCommitNotFound
	}
	name := nameOf(id)
	if !r.held.has(name) {
		return nil, &content.AbsentError{IDs: []string{commit}}
	}
	o, err := r.use(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &content.AbsentError{IDs: []string{commit}}
	}
	return o, err
}

// Commit implements [content.Reader]. Nothing but its name is known of an artifact.
func (r *reader) Commit(_ context.Context, id string) (content.Commit, error) {
	if _, err := artifact.ParseID(id); err != nil {
		return content.Commit{}, content.ErrCommitNotFound
	}
	return content.Commit{ID: id}, nil
}

// Expand implements [content.Reader].
func (r *reader) Expand(_ context.Context, prefix string) (string, error) {
	found := map[string]bool{}
	for _, ref := range r.held.state.Refs {
		if commit := ref.Delivered(); commit != "" && strings.HasPrefix(commit, prefix) {
			found[commit] = true
		}
	}
	ids := slices.Sorted(maps.Keys(found))
	switch len(ids) {
	case 0:
		return "", content.ErrCommitNotFound
	case 1:
		return ids[0], nil
	}
	return "", &content.AmbiguousError{Prefix: prefix, Candidates: ids[:min(len(ids), content.MaxCandidates)]}
}

// Object implements [content.Reader]. There are none.
func (r *reader) Object(context.Context, string) (content.Object, error) {
	return content.Object{}, content.ErrCommitNotFound
}

// Tree implements [content.Reader]. Of an artifact that is not here the error is a
// *content.AbsentError.
func (r *reader) Tree(_ context.Context, commit, path string) (string, error) {
	o, err := r.artifact(commit)
	if err != nil {
		return "", err
	}
	id, ok := o.listing.Folder(path)
	if !ok {
		return "", &content.PathError{Path: path, Want: "folder"}
	}
	return id, nil
}

// List implements [content.Reader].
func (r *reader) List(_ context.Context, tree string) ([]content.Entry, error) {
	var entries []content.Entry
	err := r.search(func(l *artifact.Listing) (ok bool) {
		entries, ok = l.Entries(tree)
		return ok
	})
	if err != nil {
		return nil, fmt.Errorf("list tree %s: %w", tree, err)
	}
	return slices.Clone(entries), nil
}

// Blob implements [content.Reader].
func (r *reader) Blob(_ context.Context, id string) (content.File, error) {
	if err := r.search(func(l *artifact.Listing) bool { _, _, ok := l.Locate(id, 0); return ok }); err != nil {
		return content.File{}, fmt.Errorf("open blob %s: %w", id, err)
	}
	return r.open.blob(id)
}

// search opens an artifact with the searched object: the one that is open, or any other.
func (r *reader) search(has func(*artifact.Listing) bool) error {
	if r.open != nil && has(r.open.listing) {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(r.held.state.with(r.held.kept).Files)) {
		if digestIn(name) == "" {
			continue
		}
		o, err := r.use(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if has(o.listing) {
			return nil
		}
	}
	return content.ErrDamaged
}

// blob opens content with that sum. Content that is asked for in the order of names is read in one
// go.
func (o *opened) blob(sum string) (content.File, error) {
	offset, size, ok := o.listing.Locate(sum, o.at)
	if !ok {
		return content.File{}, content.ErrDamaged
	}
	if o.plain == nil || offset < o.at {
		if err := o.stop(); err != nil {
			return content.File{}, err
		}
		plain, err := bundle.Decompress(io.NewSectionReader(o.file, o.begin, maxContent), o.listing.Size())
		if err != nil {
			return content.File{}, fmt.Errorf("%w: %w", content.ErrDamaged, err)
		}
		o.plain, o.at = plain, 0
	}
	if _, err := io.CopyN(io.Discard, advancing{o}, offset-o.at); err != nil {
		return content.File{}, fmt.Errorf("%w: %w", content.ErrDamaged, err)
	}
	body := &blobReader{from: advancing{o}, left: size, want: sum, hash: sha256.New()}
	return content.File{Size: size, ReadCloser: body}, nil
}

// maxContent is beyond the end of every file.
const maxContent = 1 << 62

// advancing reads the content, and counts.
type advancing struct{ *opened }

// Read implements io.Reader.
func (a advancing) Read(p []byte) (int, error) {
	n, err := a.plain.Read(p)
	a.at += int64(n)
	return n, err
}

// blobReader reads the content of one file, and compares it with its sum at the end.
type blobReader struct {
	from io.Reader
	left int64
	want string
	hash hash.Hash
}

// Read implements io.Reader.
func (b *blobReader) Read(p []byte) (int, error) {
	if b.left == 0 {
		if hex.EncodeToString(b.hash.Sum(nil)) != b.want {
			return 0, fmt.Errorf("%w: content does not have the sum %s", content.ErrDamaged, b.want)
		}
		return 0, io.EOF
	}
	n, err := b.from.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	_, _ = b.hash.Write(p[:n]) // a hash takes everything
	if err != nil && b.left > 0 {
		return n, fmt.Errorf("%w: content ends early: %w", content.ErrDamaged, err)
	}
	if b.left == 0 && hex.EncodeToString(b.hash.Sum(nil)) != b.want {
		return n, fmt.Errorf("%w: content does not have the sum %s", content.ErrDamaged, b.want)
	}
	return n, nil
}

// Close implements io.Closer. The reader of the mirror closes the file below.
func (b *blobReader) Close() error { return nil }

// Absent implements [content.Reader]: an artifact is here as a whole.
func (r *reader) Absent(context.Context, []string) ([]string, error) { return nil, nil }

// File implements [content.Reader].
func (r *reader) File(_ context.Context, commit, path string) (content.File, error) {
	o, err := r.artifact(commit)
	if err != nil {
		return content.File{}, err
	}
	f, ok := o.listing.Find(path)
	if !ok {
		return content.File{}, &content.PathError{Path: path, Want: "file"}
	}
	return o.blob(f.Sum)
}

// Log implements [content.Reader]: an artifact has no history but itself.
func (r *reader) Log(ctx context.Context, p content.LogParams) (content.Log, error) {
	c, err := r.Commit(ctx, p.From)
	if err != nil || p.Skip > 0 || p.Limit <= 0 {
		return content.Log{}, err
	}
	return content.Log{Commits: []content.Commit{c}}, nil
}

// Compare implements [content.Reader].
func (r *reader) Compare(ctx context.Context, p content.CompareParams) ([]content.Change, error) {
	base, err := r.artifact(p.Base)
	if err != nil {
		return nil, err
	}
	before := base.listing.Files()
	head, err := r.artifact(p.Head)
	if err != nil {
		return nil, err
	}
	return compare(before, head.listing.Files(), p), context.Cause(ctx)
}

// compare returns the changes from one list of files to another, both in the order of their names.
func compare(before, after []artifact.File, p content.CompareParams) []content.Change {
	var changes []content.Change
	add := func(name string, kind content.ChangeKind) {
		if content.Inside(name, p.Path) && name > p.After && len(changes) < p.Limit {
			changes = append(changes, content.Change{Path: name, Kind: kind})
		}
	}
	for len(before) > 0 || len(after) > 0 {
		switch {
		case len(after) == 0 || (len(before) > 0 && before[0].Name < after[0].Name):
			add(before[0].Name, content.Deleted)
			before = before[1:]
		case len(before) == 0 || before[0].Name > after[0].Name:
			add(after[0].Name, content.Added)
			after = after[1:]
		default:
			if before[0] != after[0] {
				add(after[0].Name, content.Modified)
			}
			before, after = before[1:], after[1:]
		}
	}
	return changes
}

// Close implements [content.Reader].
func (r *reader) Close() error {
	defer r.store.readers.Release(1)
	err := r.open.close()
	r.open = nil
	return err
}
