// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package gogit

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"

	"github.com/leatdev/leat/services/gitcache/internal/content"
	"github.com/leatdev/leat/services/gitcache/internal/pack"
)

// packed reads an object out of the packs, several times as fast as go-git does. False: it is larger than what is held in memory, or in no pack, and left to go-git.
func (r *reader) packed(hash plumbing.Hash, want string) (data []byte, ok bool, err error) {
	if r.packs == nil {
		if r.packs, err = pack.Open(r.storage.Filesystem().Root()); err != nil {
			return nil, false, err
		}
	}
	o, err := r.packs.Read(pack.ID(hash), largeObject)
	switch {
	case errors.Is(err, pack.ErrNotFound), errors.Is(err, pack.ErrTooLarge):
		return nil, false, nil
	case errors.Is(err, pack.ErrMalformed):
		return nil, false, errors.Join(content.ErrDamaged, err)
	case err != nil:
		return nil, false, err
	case o.Kind() != want:
		return nil, false, fmt.Errorf("%w: %s is a %s, want a %s", content.ErrDamaged, hash, o.Kind(), want)
	}
	return o.Data, true, nil
}

// packedCommit saves go-git the trouble to read the indexes of all packs for one commit. Whatever is wrong go-git finds too.
func (r *reader) packedCommit(hash plumbing.Hash) (*object.Commit, bool) {
	data, ok, err := r.packed(hash, "commit")
	if !ok || err != nil {
		return nil, false
	}
	encoded := &plumbing.MemoryObject{}
	encoded.SetType(plumbing.CommitObject)
	_, _ = encoded.Write(data) // to memory
	c, err := object.DecodeCommit(r.storage, encoded)
	return c, err == nil
}

// entries returns what is in a tree that another object names, so that its absence is damage.
func (r *reader) entries(hash plumbing.Hash) ([]object.TreeEntry, error) {
	data, ok, err := r.packed(hash, "tree")
	if ok {
		return parseTree(data)
	}
	if err != nil {
		return nil, fmt.Errorf("read tree %s: %w", hash, err)
	}
	t, err := object.GetTree(r.storage, hash)
	if err != nil {
		return nil, fmt.Errorf("read tree %s: %w", hash, damaged(err))
	}
	return t.Entries, nil
}

// parseTree reads entries: the mode in octal digits, a space, the name, a NUL and the id, again and again.
func parseTree(data []byte) ([]object.TreeEntry, error) {
	var entries []object.TreeEntry
	for len(data) > 0 {
		digits, rest, spaced := bytes.Cut(data, []byte{' '})
		name, rest, ended := bytes.Cut(rest, []byte{0})
		mode, err := strconv.ParseUint(string(digits), 8, 32)
		if !spaced || !ended || err != nil || len(rest) < len(plumbing.ZeroHash) {
			return nil, fmt.Errorf("%w: a tree cannot be read", content.ErrDamaged)
		}
		entry := object.TreeEntry{Name: string(name), Mode: filemode.FileMode(mode)}
		data = rest[copy(entry.Hash[:], rest):]
		entries = append(entries, entry)
	}
	return entries, nil
}

// blob opens what a tree names, so that its absence is damage.
func (r *reader) blob(hash plumbing.Hash) (content.File, error) {
	data, ok, err := r.packed(hash, "blob")
	if ok {
		return content.File{Size: int64(len(data)), ReadCloser: io.NopCloser(bytes.NewReader(data))}, nil
	}
	if err != nil {
		return content.File{}, err
	}
	b, err := object.GetBlob(r.storage, hash)
	if err != nil {
		return content.File{}, damaged(err)
	}
	body, err := b.Reader()
	return content.File{Size: b.Size, ReadCloser: body}, err
}
