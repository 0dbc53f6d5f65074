// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package pack

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/sha1"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// MergeCost is how much memory [Merge] takes for each object of the packs it reads, the collector's
// share included.
const MergeCost = 240

// MergeParams select what to merge into what.
type MergeParams struct {
	// Packs are the files of packs, each beside its index. Each is complete in itself.
	Packs []string
	// Dir takes the new pack and its index.
	Dir string
	// Keep reports whether to keep an object; the base of a kept delta is kept, too. Nil: all.
	Keep func(ID) bool
}

// Merge makes one pack of several: every object once, as the first pack that has it has it. Bytes
// are checked against the indexes as they are copied, the new pack is read back, and files are as
// durable as [Receive]'s. The old packs stay. An error matches ErrMalformed where a pack is
// damaged. ErrEmpty: there is nothing to keep.
func Merge(ctx context.Context, p MergeParams) (Received, error) {
	m := &merging{ctx: ctx, params: p, placed: map[ID]int64{}}
	got, err := m.run()
	if err != nil {
		return Received{}, fmt.Errorf("merge packs: %w", endMalformed(err))
	}
	return got, nil
}

// merging is one new pack being made. Its state is the place of every object that it gets: open
// enters them all without one, and copyObject sets each once. So a base that is not placed when its
// delta is copied means that a source is damaged.
type merging struct {
	ctx    context.Context //nolint:containedctx // lives as long as one call
	params MergeParams

	sources []*source
	placed  map[ID]int64 // where the new pack has an object; 0: not yet
	out     *bufio.Writer
	crc     hash.Hash32 // of the object that is being written
	offset  int64
	entries []Entry
}

// source is one of the packs to merge.
type source struct {
	path    string
	entries []Entry // in the order of the pack
	end     int64   // where the last one ends
	kept    []bool  // nil: all
}

func (m *merging) run() (Received, error) {
	for _, path := range m.params.Packs {
		s, err := m.open(path)
		if err != nil {
			return Received{}, err
		}
		m.sources = append(m.sources, s)
	}
	if len(m.placed) == 0 {
		return Received{}, ErrEmpty
	}
	f, err := os.CreateTemp(m.params.Dir, TemporaryPrefix)
	if err != nil {
		return Received{}, err
	}
	defer func() { _ = os.Remove(f.Name()) }() // gone already where the rename succeeded
	sum, err := m.write(f)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return Received{}, err
	}
	if err := verifySum(m.ctx, f.Name(), sum); err != nil {
		return Received{}, err
	}
	return publish(f.Name(), m.params.Dir, m.entries, sum, m.offset+sumSize)
}

// open reads a pack's index and notes which objects the new pack gets.
func (m *merging) open(path string) (*source, error) {
	index, err := ReadIndex(strings.TrimSuffix(path, ".pack") + ".idx")
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	s := &source{path: path, entries: index.inPackOrder(), end: info.Size() - sumSize}
	if m.params.Keep != nil {
		if err := s.choose(m.ctx, index, m.params.Keep); err != nil {
			return nil, fmt.Errorf("%s: %w", filepath.Base(path), err)
		}
	}
	for i, e := range s.entries {
		if s.keeps(i) {
			m.placed[e.ID] = 0
		}
	}
	return s, nil
}

// keeps reports whether the new pack gets the object with that place in the source, unless another
// source gave it first.
func (s *source) keeps(i int) bool { return s.kept == nil || s.kept[i] }

// endOf returns where an object's bytes end: where the next one begins.
func (s *source) endOf(i int) int64 {
	if i+1 < len(s.entries) {
		return s.entries[i+1].Offset
	}
	return s.end
}

// at finds the object that begins at an offset.
func (s *source) at(offset int64) (int, bool) {
	return slices.BinarySearchFunc(s.entries, offset, func(e Entry, offset int64) int { return cmp.Compare(e.Offset, offset) })
}

// choose marks the objects to keep, with their bases, and theirs.
func (s *source) choose(ctx context.Context, index *Index, keep func(ID) bool) error {
	f, err := os.Open(s.path)
	if err != nil {
		return err
	}
	defer f.Close()
	s.kept = make([]bool, len(s.entries))
	head := bufio.NewReaderSize(nil, 64)
	for i, e := range s.entries {
		if i%chunk == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if !keep(e.ID) {
			continue
		}
		for next := i; next >= 0 && !s.kept[next]; {
			s.kept[next] = true
			head.Reset(io.NewSectionReader(f, s.entries[next].Offset, s.endOf(next)-s.entries[next].Offset))
			if next, err = s.base(head, index, s.entries[next].Offset); err != nil {
				return err
			}
		}
	}
	return nil
}

// base returns the index of the object that the current one is a delta of, or -1 if it is not a
// delta.
func (s *source) base(r *bufio.Reader, index *Index, offset int64) (int, error) {
	h, err := readHead(r, sumSize)
	if err != nil {
		return 0, err
	}
	switch h.kind {
	case kindOfsDelta:
		offset -= h.back
	case kindRefDelta:
		i, ok := index.Find(ID(h.base[:sumSize]))
		if !ok {
			return 0, fmt.Errorf("%w: object at %d has no base", ErrMalformed, offset)
		}
		offset = index.At(i).Offset
	case kindCommit, kindTree, kindBlob, kindTag:
		return -1, nil
	}
	i, ok := s.at(offset)
	if !ok {
		return 0, fmt.Errorf("%w: base is not where it should be", ErrMalformed)
	}
	return i, nil
}

// write writes all objects and returns the new pack's checksum. Fewer objects than were placed mean
// that an index names one that its pack does not have.
func (m *merging) write(f io.Writer) ([]byte, error) {
	sum := sha1.New()
	m.out, m.crc = bufio.NewWriterSize(io.MultiWriter(f, sum), streamBuffer), crc32.NewIEEE()
	m.entries = make([]Entry, 0, len(m.placed))
	_, _ = m.out.Write(preamble(len(m.placed))) // errors stick until Flush
	m.offset = headerSize
	for _, s := range m.sources {
		if err := m.copy(s); err != nil {
			return nil, fmt.Errorf("%s: %w", filepath.Base(s.path), err)
		}
	}
	if err := m.out.Flush(); err != nil {
		return nil, err
	}
	if len(m.entries) != len(m.placed) {
		return nil, fmt.Errorf("%w: %d objects of %d found", ErrMalformed, len(m.entries), len(m.placed))
	}
	_, err := f.Write(sum.Sum(nil))
	return sum.Sum(nil), err
}

// copy adds a pack's objects to the new one, the ones that it does not have yet.
func (m *merging) copy(s *source) error {
	f, err := os.Open(s.path)
	if err != nil {
		return err
	}
	defer f.Close()
	in := bufio.NewReaderSize(ContextReader{m.ctx, f}, streamBuffer)
	at := int64(0)
	for i, e := range s.entries {
		if !s.keeps(i) || m.placed[e.ID] != 0 {
			continue
		}
		if _, err := io.CopyN(io.Discard, in, e.Offset-at); err != nil {
			return err
		}
		at = s.endOf(i)
		if err := m.copyObject(s, in, e, at-e.Offset); err != nil {
			return fmt.Errorf("object %s: %w", e.ID, err)
		}
	}
	return nil
}

// maxHead is the longest head that [head.append] writes and readHead reads.
const maxHead = 10 + 20

// copyObject adds the object that in is at. Its bytes stay as they are, except the distance to its
// base.
func (m *merging) copyObject(s *source, in *bufio.Reader, e Entry, size int64) error {
	first, err := in.Peek(int(min(size, maxHead)))
	if err != nil {
		return err
	}
	body := bytes.NewReader(first)
	h, err := readHead(body, sumSize)
	if err != nil {
		return err
	}
	headSize := len(first) - body.Len()
	crc := crc32.ChecksumIEEE(first[:headSize])
	if h.kind == kindOfsDelta {
		base, ok := s.at(e.Offset - h.back)
		if !ok || m.placed[s.entries[base].ID] == 0 {
			return fmt.Errorf("%w: base is not where it should be", ErrMalformed)
		}
		h.back = m.offset - m.placed[s.entries[base].ID]
	}
	written := h.append(nil)
	_, _ = in.Discard(headSize) // it was peeked at
	m.crc.Reset()
	to := io.MultiWriter(m.out, m.crc)
	_, _ = to.Write(written) // errors stick until Flush
	if crc, err = sumOf(in, size-int64(headSize), crc, to); err != nil {
		return err
	}
	if crc != e.CRC {
		return fmt.Errorf("%w: does not match its checksum", ErrMalformed)
	}
	m.placed[e.ID] = m.offset
	m.entries = append(m.entries, Entry{ID: e.ID, CRC: m.crc.Sum32(), Offset: m.offset})
	m.offset += int64(len(written)) + size - int64(headSize)
	return nil
}

// verifySum makes sure that a file ends with sum, and that sum is the checksum of the bytes before
// it.
func verifySum(ctx context.Context, path string, sum []byte) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	hash, in := sha1.New(), ContextReader{ctx, f}
	if _, err := io.CopyN(hash, in, info.Size()-sumSize); err != nil {
		return err
	}
	end, err := io.ReadAll(in)
	if err != nil {
		return err
	}
	if !bytes.Equal(hash.Sum(nil), sum) || !bytes.Equal(end, sum) {
		return fmt.Errorf("%w: %s does not match its checksum", ErrMalformed, filepath.Base(path))
	}
	return nil
}
