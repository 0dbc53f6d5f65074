// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package pack

import (
	"bytes"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"path/filepath"
	"slices"
	"strconv"
)

var (
	// ErrNotFound means that no pack holds the object.
	ErrNotFound = errors.New("object not in any pack")
	// ErrTooLarge means that the object, or one that it is a delta against, has more bytes than
	// were asked for.
	ErrTooLarge = errors.New("object too large")
)

// cacheBytes bounds the most recently read objects that a [Reader] keeps. Versions of a file, and
// similar files, are deltas against one another.
const cacheBytes = 8 << 20

// Object is an object that a [Reader] reads.
type Object struct {
	// Kind is Git's word for what the object is: commit, tree, blob or tag.
	Kind string
	// Data is not to be changed.
	Data []byte
}

// Reader reads objects out of the packs that a repository had when it was opened, many small ones
// in a row: what a bundle is built of. Objects are named by hexadecimal digits. It holds the packs'
// indexes and a few MiB of what it has read. It is for one goroutine.
//
// Packs come from a server and a disk, so nothing in them is trusted: sizes, offsets and chains of
// deltas are checked, and every object that is returned has the name that it was asked for by. The
// meaning of its bytes is the author's.
type Reader struct {
	packs  []*readable
	cache  *cache
	window window
	chain  []link // of deltas, from the object towards its base
	delta  []byte // the one that is being applied
	sha1   hash.Hash
	sha256 hash.Hash
	sum    []byte
}

// link is one delta of a chain.
type link struct {
	at   place
	size int64
	data int64 // where its compressed bytes begin
}

// Open opens the packs of a bare repository. One without any has no objects: loose ones and
// alternates are ignored.
func Open(dir string) (*Reader, error) {
	indexes, err := filepath.Glob(filepath.Join(dir, "objects", "pack", "pack-*.idx"))
	if err != nil {
		return nil, fmt.Errorf("open packs: %w", err)
	}
	r := &Reader{cache: newCache(cacheBytes), sha1: sha1.New(), sha256: sha256.New()}
	for _, path := range indexes {
		p, err := openReadable(path)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("open packs: %w", err), r.Close())
		}
		r.packs = append(r.packs, p)
	}
	return r, nil
}

// Close closes the packs.
func (r *Reader) Close() error {
	var errs []error
	for _, p := range r.packs {
		errs = append(errs, p.file.Close())
	}
	return errors.Join(errs...)
}

// Read returns an object of at most limit bytes. Errors: ErrNotFound, ErrTooLarge, ErrMalformed,
// and the disk's.
func (r *Reader) Read(id string, limit int64) (Object, error) {
	at, name, ok := r.find(id)
	if !ok {
		return Object{}, fmt.Errorf("%w: %s", ErrNotFound, id)
	}
	object, err := r.read(at, limit)
	if err == nil {
		err = r.verify(name, object)
	}
	if err != nil {
		return Object{}, fmt.Errorf("read object %s: %w", id, err)
	}
	return object, nil
}

// Kind returns the kind of an object, and "" for one that no pack holds. It reads no content, and
// so verifies none. Errors: ErrMalformed, and the disk's.
func (r *Reader) Kind(id string) (string, error) {
	at, _, ok := r.find(id)
	if !ok {
		return "", nil
	}
	for range maxChain + 1 {
		h, _, err := r.window.head(at)
		if err == nil && h.kind.isDelta() {
			at, err = r.baseOf(at, h)
		} else if err == nil {
			return h.kind.String(), nil
		}
		if err != nil {
			return "", fmt.Errorf("read object %s: %w", id, err)
		}
	}
	return "", fmt.Errorf("read object %s: %w: a chain of more than %d deltas", id, ErrMalformed, maxChain)
}

// Prefixed returns the names of all objects that begin with these lower-case hexadecimal digits,
// rising, each once.
func (r *Reader) Prefixed(prefix string) []string {
	var names []string
	for _, p := range r.packs {
		names = p.index.prefixed(names, prefix)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// verify compares an object with its name, as with a checksum.
func (r *Reader) verify(name []byte, o Object) error {
	hash := r.sha1
	if len(name) == sha256.Size {
		hash = r.sha256
	}
	hash.Reset()
	r.sum = append(r.sum[:0], o.Kind...)
	r.sum = strconv.AppendInt(append(r.sum, ' '), int64(len(o.Data)), 10)
	_, _ = hash.Write(append(r.sum, 0)) // a hash takes everything
	_, _ = hash.Write(o.Data)
	if r.sum = hash.Sum(r.sum[:0]); !bytes.Equal(r.sum, name) {
		return fmt.Errorf("%w: its bytes have the id %x", ErrMalformed, r.sum)
	}
	return nil
}

// find returns where an object is, and its name in bytes; false: no pack holds it.
func (r *Reader) find(id string) (at place, name []byte, ok bool) {
	name, err := hex.DecodeString(id)
	if err != nil {
		return place{}, nil, false
	}
	for _, p := range r.packs {
		if at, ok = p.find(name); ok {
			return at, name, true
		}
	}
	return place{}, nil, false
}

// read follows deltas to an object that is not a delta, or is cached, and applies them on the way
// back.
func (r *Reader) read(at place, limit int64) (Object, error) {
	r.chain = r.chain[:0]
	base, known := r.cache.get(at)
	for !known {
		h, data, err := r.window.head(at)
		if err != nil {
			return Object{}, err
		}
		if !h.kind.isDelta() {
			if base, err = r.whole(at, h, data, limit); err != nil {
				return Object{}, err
			}
			break
		}
		if len(r.chain) == maxChain {
			return Object{}, fmt.Errorf("%w: a chain of more than %d deltas", ErrMalformed, maxChain)
		}
		r.chain = append(r.chain, link{at, h.size, data})
		if at, err = r.baseOf(at, h); err != nil {
			return Object{}, err
		}
		base, known = r.cache.get(at)
	}
	if int64(len(base.Data)) > limit {
		return Object{}, ErrTooLarge
	}
	return r.applyChain(base, limit)
}

// baseOf returns where the base of a delta begins. A base is in the same pack.
func (r *Reader) baseOf(at place, h head) (place, error) {
	if h.kind == kindOfsDelta {
		return place{at.pack, at.offset - h.back}, nil
	}
	name := h.base[:at.pack.index.width]
	if base, ok := at.pack.find(name); ok {
		return base, nil
	}
	return place{}, fmt.Errorf("%w: no base %x of a delta", ErrMalformed, name)
}

// whole reads an object that is not a delta.
func (r *Reader) whole(at place, h head, data, limit int64) (Object, error) {
	if h.size > limit {
		return Object{}, ErrTooLarge
	}
	object := Object{Kind: h.kind.String(), Data: r.cache.room(at, h.kind.String(), h.size)}
	if err := r.window.read(at.pack, data, object.Data); err != nil {
		r.cache.drop(at)
		return Object{}, err
	}
	return object, nil
}

// applyChain applies the deltas of the chain, from the one next to the base to the object. Every
// result goes to the cache, because versions of a file are often read one after the other.
func (r *Reader) applyChain(base Object, limit int64) (Object, error) {
	for i := len(r.chain) - 1; i >= 0; i-- {
		l := r.chain[i]
		if l.size > limit { // a delta that is longer than what it makes is nothing that Git writes
			return Object{}, ErrTooLarge
		}
		if int64(cap(r.delta)) < l.size {
			r.delta = make([]byte, l.size)
		}
		r.delta = r.delta[:l.size]
		err := r.window.read(l.at.pack, l.data, r.delta)
		if err == nil {
			base, err = r.apply(l.at, base, limit)
		}
		if err != nil {
			return Object{}, err
		}
	}
	return base, nil
}

// apply makes the object at a place of its base and r.delta.
func (r *Reader) apply(at place, base Object, limit int64) (Object, error) {
	_, size, _, err := deltaSizes(r.delta)
	if err != nil {
		return Object{}, err
	}
	if size > limit {
		return Object{}, ErrTooLarge
	}
	result := r.cache.room(at, base.Kind, size)
	if _, err := applyDelta(result[:0:size], base.Data, r.delta); err != nil {
		r.cache.drop(at)
		return Object{}, err
	}
	return Object{Kind: base.Kind, Data: result}, nil
}
