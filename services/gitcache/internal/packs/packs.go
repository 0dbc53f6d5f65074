// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package packs reads objects out of the packs of a bare Git repository, many small ones in a row: what a bundle is built
// of. It knows nothing of refs, of loose objects and of alternates, and holds no more than a few MiB of what it has read.
//
// Packs are what a server sent and what a disk has kept, so nothing in them is believed: sizes, offsets and chains of
// deltas are checked, and every object that is returned has the id that it was asked for by.
package packs

import (
	"bytes"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"strconv"
)

// Kind is what an object is.
type Kind byte

// The kinds of objects, by their numbers in a pack.
const (
	Commit Kind = 1
	Tree   Kind = 2
	Blob   Kind = 3
	Tag    Kind = 4

	offsetDelta    Kind = 6 // against an object of the same pack
	referenceDelta Kind = 7 // against an object named by its id
)

// String returns Git's word for it.
func (k Kind) String() string {
	switch k {
	case Commit:
		return "commit"
	case Tree:
		return "tree"
	case Blob:
		return "blob"
	case Tag:
		return "tag"
	default:
		return "delta"
	}
}

var (
	// ErrNotFound means that no pack holds the object.
	ErrNotFound = errors.New("object not in any pack")
	// ErrTooLarge means that the object, or one that it is a delta against, has more bytes than were asked for.
	ErrTooLarge = errors.New("object too large")
	// ErrMalformed means that a pack or its index is not what Git writes, or not any more.
	ErrMalformed = errors.New("malformed pack")
)

const (
	// maxChain is how many deltas may lead to an object; Git itself makes none longer.
	maxChain = 4095
	// cacheBytes is kept of what was read last: versions of a file, and files alike, are deltas against one another.
	cacheBytes = 8 << 20
)

// ID is the name of an object.
type ID [sha1.Size]byte

// String returns its hexadecimal digits.
func (id ID) String() string { return hex.EncodeToString(id[:]) }

// Object is what Read returns.
type Object struct {
	Kind Kind
	// Data is valid until the next call of the Reader.
	Data []byte
}

// Reader reads the packs that a repository had when it was opened. It is for one goroutine.
type Reader struct {
	packs   []*pack
	cache   *cache
	inflate inflater
	chain   []link // of deltas, from the object towards its base
	delta   []byte // the one that is being applied
	hash    hash.Hash
	sum     []byte
}

// place is where an object begins.
type place struct {
	pack   *pack
	offset int64
}

// link is one delta of a chain.
type link struct {
	at     place
	header header
}

// Open opens the packs of a repository, whose folder dir is. A repository without any has no objects.
func Open(dir string) (*Reader, error) {
	indexes, err := filepath.Glob(filepath.Join(dir, "objects", "pack", "pack-*.idx"))
	if err != nil {
		return nil, fmt.Errorf("open packs: %w", err)
	}
	r := &Reader{cache: newCache(cacheBytes), hash: sha1.New()}
	for _, path := range indexes {
		p, err := openPack(path)
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

// Read returns an object of at most limit bytes. Errors: ErrNotFound, ErrTooLarge, ErrMalformed, and those of the disk.
func (r *Reader) Read(id ID, limit int64) (Object, error) {
	at, ok := r.find(id)
	if !ok {
		return Object{}, fmt.Errorf("%w: %s", ErrNotFound, id)
	}
	object, err := r.read(at, limit)
	if err == nil {
		err = r.verify(id, object)
	}
	if err != nil {
		return Object{}, fmt.Errorf("read object %s: %w", id, err)
	}
	return object, nil
}

// verify compares an object with its id, as a checksum: an attacker was looked for when the pack arrived.
func (r *Reader) verify(id ID, o Object) error {
	r.hash.Reset()
	r.sum = append(r.sum[:0], o.Kind.String()...)
	r.sum = strconv.AppendInt(append(r.sum, ' '), int64(len(o.Data)), 10)
	_, _ = r.hash.Write(append(r.sum, 0)) // a hash takes everything
	_, _ = r.hash.Write(o.Data)
	if r.sum = r.hash.Sum(r.sum[:0]); !bytes.Equal(r.sum, id[:]) {
		return fmt.Errorf("%w: its bytes have the id %x", ErrMalformed, r.sum)
	}
	return nil
}

func (r *Reader) find(id ID) (place, bool) {
	for _, p := range r.packs {
		if offset, ok := p.index.find(id); ok {
			return place{p, offset}, true
		}
	}
	return place{}, false
}

// read follows deltas to something that is none, or that is still known, and applies them on the way back.
func (r *Reader) read(at place, limit int64) (Object, error) {
	r.chain = r.chain[:0]
	base, known := r.cache.get(at)
	for !known {
		h, err := r.inflate.header(at)
		if err != nil {
			return Object{}, err
		}
		if h.kind <= Tag {
			if base, err = r.whole(at, h, limit); err != nil {
				return Object{}, err
			}
			break
		}
		if len(r.chain) == maxChain {
			return Object{}, fmt.Errorf("%w: a chain of more than %d deltas", ErrMalformed, maxChain)
		}
		r.chain = append(r.chain, link{at, h})
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

func (r *Reader) baseOf(at place, h header) (place, error) {
	if h.kind == offsetDelta {
		return place{at.pack, h.base}, nil
	}
	if offset, ok := at.pack.index.find(h.reference); ok {
		return place{at.pack, offset}, nil
	}
	if base, ok := r.find(h.reference); ok {
		return base, nil
	}
	return place{}, fmt.Errorf("%w: base %s of a delta", ErrNotFound, h.reference)
}

// whole reads an object that is no delta.
func (r *Reader) whole(at place, h header, limit int64) (Object, error) {
	if h.size > limit {
		return Object{}, ErrTooLarge
	}
	object := Object{Kind: h.kind, Data: r.cache.room(at, h.kind, h.size)}
	if err := r.inflate.read(at, h, object.Data); err != nil {
		r.cache.drop(at)
		return Object{}, err
	}
	return object, nil
}

func (r *Reader) applyChain(base Object, limit int64) (Object, error) {
	for i := len(r.chain) - 1; i >= 0; i-- {
		at, h := r.chain[i].at, r.chain[i].header
		if h.size > limit { // a delta that is longer than what it makes is nothing that Git writes
			return Object{}, ErrTooLarge
		}
		r.delta = grow(r.delta, h.size)
		if err := r.inflate.read(at, h, r.delta); err != nil {
			return Object{}, err
		}
		var err error
		if base, err = r.apply(at, base, limit); err != nil {
			return Object{}, err
		}
	}
	return base, nil
}

func (r *Reader) apply(at place, base Object, limit int64) (Object, error) {
	sizes, rest, ok := deltaSizes(r.delta)
	switch {
	case !ok || sizes.base != int64(len(base.Data)):
		return Object{}, fmt.Errorf("%w: a delta against something else", ErrMalformed)
	case sizes.result > limit:
		return Object{}, ErrTooLarge
	}
	result := r.cache.room(at, base.Kind, sizes.result)
	if !applyDelta(result, base.Data, rest) {
		r.cache.drop(at)
		return Object{}, fmt.Errorf("%w: a delta that does not fit", ErrMalformed)
	}
	return Object{Kind: base.Kind, Data: result}, nil
}

// grow returns a slice of that length, in the same memory where it suffices.
func grow(b []byte, size int64) []byte {
	if int64(cap(b)) < size {
		return make([]byte, size)
	}
	return b[:size]
}

// pack is one pack and its index.
type pack struct {
	index index
	file  *os.File
	bytes *io.SectionReader // the file
	size  int64
}

func openPack(indexPath string) (*pack, error) {
	x, err := readIndex(indexPath)
	if err != nil {
		return nil, err
	}
	file, err := os.Open(indexPath[:len(indexPath)-len(".idx")] + ".pack")
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &pack{index: x, file: file, size: info.Size(), bytes: io.NewSectionReader(file, 0, info.Size())}, nil
}
