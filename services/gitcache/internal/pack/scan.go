// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package pack

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"math"
	"sort"
	"strconv"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/zlib"
	"github.com/pjbgf/sha1cd"
)

// none is the number of no object.
const none int32 = -1

// record is the state of one object while a pack is indexed.
type record struct {
	offset  int64
	size    int64 // inflated; of a delta: of what it makes
	id      ID    // of a reference delta: the base's, until it is resolved
	crc     uint32
	base    int32  // none: it has no base, or a base that is not known yet
	child   int32  // the first object whose base this is
	sibling int32  // the next object with the same base
	kind    kind   // from the pack
	known   bool   // id is the object's own
	depth   uint16 // length of the chain of deltas that leads to it, as far as known
}

// chunk is how many records are allocated at once. Growing one slice would hold all of them twice
// for a while.
const chunk = 4096

// records are all objects in the order of the pack. They take memory as objects come, whatever the
// pack announced.
type records struct {
	chunks       [][]record
	n            int32
	largest      int64 // of what deltas are for, and of what they make
	largestDelta int64
}

func (r *records) at(i int32) *record { return &r.chunks[i/chunk][i%chunk] }

func (r *records) add(rec record) int32 {
	if r.n%chunk == 0 {
		r.chunks = append(r.chunks, make([]record, 0, chunk))
	}
	last := &r.chunks[len(r.chunks)-1]
	*last = append(*last, rec)
	r.n++
	return r.n - 1
}

// endOf returns where an object's bytes end; end is where the last one's do.
func (r *records) endOf(i int32, end int64) int64 {
	if i+1 < r.n {
		return r.at(i + 1).offset
	}
	return end
}

func (r *records) find(offset int64) (int32, bool) {
	i, ok := sort.Find(int(r.n), func(i int) int { return cmp.Compare(offset, r.at(int32(i)).offset) })
	return int32(i), ok
}

// link makes child one of base's.
func (r *records) link(child, base int32) {
	c, b := r.at(child), r.at(base)
	c.base, c.sibling, b.child = base, b.child, child
}

// heaviestLast moves, among the known children of each object, the child with the most descendants
// behind the others. The base of an offset delta precedes it in the pack. Other deltas do not have
// a known base yet.
func (r *records) heaviestLast() {
	weights := make([]int32, r.n) // descendants
	for i := r.n - 1; i >= 0; i-- {
		if base := r.at(i).base; base != none {
			weights[base] += weights[i] + 1
		}
	}
	for i := range r.n {
		if first := r.at(i).child; first != none && r.at(first).sibling != none {
			r.moveHeaviest(r.at(i), weights)
		}
	}
}

// moveHeaviest makes the heaviest of several children the last one.
func (r *records) moveHeaviest(parent *record, weights []int32) {
	heaviest, before, last := parent.child, none, parent.child
	for at := parent.child; r.at(at).sibling != none; at = last {
		last = r.at(at).sibling
		if weights[last] > weights[heaviest] {
			heaviest, before = last, at
		}
	}
	if heaviest == last {
		return
	}
	if before == none {
		parent.child = r.at(heaviest).sibling
	} else {
		r.at(before).sibling = r.at(heaviest).sibling
	}
	r.at(last).sibling, r.at(heaviest).sibling = heaviest, none
}

// deepest is the memory that a delta, its base and its result take at most. The result is appended
// to as it grows.
func (r *records) deepest() int64 { return 3*r.largest + r.largestDelta }

func (r *records) entries() []Entry {
	entries := make([]Entry, 0, r.n)
	for i := range r.n {
		rec := r.at(i)
		entries = append(entries, Entry{ID: rec.id, CRC: rec.crc, Offset: rec.offset})
	}
	return entries
}

// stream reads a pack from its beginning, and knows where it is.
type stream struct {
	*bufio.Reader
	below *meter
}

// newStream returns a stream of what r holds from an offset on.
func newStream(r io.Reader, offset int64) stream {
	below := &meter{Reader: r, n: offset}
	return stream{Reader: bufio.NewReaderSize(below, streamBuffer), below: below}
}

func (s stream) offset() int64 { return s.below.n - int64(s.Buffered()) }

// scanner goes through the objects of a pack in a stream.
type scanner struct {
	stream  stream
	records *records
	limits  limits
	inflate inflater
	hash    hasher
	buffer  []byte
}

// newScanner returns a scanner that adds each object to into.
func newScanner(s stream, into *records, l limits) *scanner {
	return &scanner{stream: s, records: into, limits: l, hash: newHasher(), buffer: make([]byte, 32<<10)}
}

// next reads one object.
func (s *scanner) next() error {
	offset := s.stream.offset()
	h, err := readHead(s.stream, sumSize)
	if err != nil {
		return err
	}
	rec := record{offset: offset, size: h.size, id: ID(h.base[:sumSize]), base: none, child: none, sibling: none, kind: h.kind}
	base := none
	if h.kind == kindOfsDelta {
		found, ok := s.records.find(offset - h.back)
		if !ok {
			return fmt.Errorf("%w: base is not where it should be", ErrMalformed)
		}
		base, rec.depth = found, s.records.at(found).depth+1
		if err := s.limits.checkChain(rec.depth); err != nil {
			return err
		}
	}
	body, err := s.inflate.open(s.stream.Reader)
	if err != nil {
		return err
	}
	if h.kind.isDelta() {
		rec.size, err = s.skipDelta(body, h.size)
	} else {
		rec.id, err = s.identify(body, h)
		rec.known = true
	}
	if err != nil {
		return err
	}
	i := s.records.add(rec)
	if base != none {
		s.records.link(i, base)
	}
	return nil
}

// identify computes the id of an object as it streams by.
func (s *scanner) identify(body io.Reader, h head) (ID, error) {
	if err := s.limits.checkParsed(h.kind, h.size); err != nil {
		return ID{}, err
	}
	s.hash.begin(h.kind, h.size)
	n, err := io.CopyBuffer(s.hash.Hash, oneMore(body, h.size), s.buffer)
	if err == nil && n != h.size {
		err = fmt.Errorf("%w: got %d bytes, want %d", ErrMalformed, n, h.size)
	}
	if err != nil {
		return ID{}, err
	}
	return s.hash.end()
}

// skipDelta reads over a delta and returns how large what it makes is.
func (s *scanner) skipDelta(body io.Reader, size int64) (int64, error) {
	first, err := io.ReadFull(body, s.buffer[:min(size, maxDeltaHead)])
	if err != nil {
		return 0, err
	}
	base, result, _, err := deltaSizes(s.buffer[:first])
	if err != nil {
		return 0, err
	}
	s.records.largest, s.records.largestDelta = max(s.records.largest, base, result), max(s.records.largestDelta, size)
	n, err := io.CopyBuffer(io.Discard, oneMore(body, size-int64(first)), s.buffer)
	if err == nil && n+int64(first) != size {
		err = fmt.Errorf("%w: got %d bytes, want %d", ErrMalformed, n+int64(first), size)
	}
	return result, err
}

// oneMore returns a reader that ends one byte after size. The caller sees whether the inflated data
// ends at size, and does not read further if the data is longer. The reader has only the method
// Read, so that io.CopyBuffer uses the buffer it gets.
func oneMore(r io.Reader, size int64) io.Reader {
	if size == math.MaxInt64 {
		return onlyReader{r}
	}
	return &io.LimitedReader{R: r, N: size + 1}
}

type onlyReader struct{ io.Reader }

// inflater inflates one object after the other.
type inflater struct{ body io.ReadCloser }

func (f *inflater) open(r io.Reader) (io.Reader, error) {
	var err error
	if f.body == nil {
		f.body, err = zlib.NewReader(r)
	} else if again, ok := f.body.(zlib.Resetter); ok {
		err = again.Reset(r, nil)
	}
	if err != nil {
		return nil, wrong(err)
	}
	return inflated{f.body}, nil
}

// inflated tells errors of the format from errors of the reader below.
type inflated struct{ io.Reader }

func (r inflated) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	return n, wrong(err)
}

// wrong marks errors of the format.
func wrong(err error) error {
	_, corrupt := errors.AsType[flate.CorruptInputError](err)
	if corrupt || errors.Is(err, zlib.ErrHeader) || errors.Is(err, zlib.ErrChecksum) || errors.Is(err, zlib.ErrDictionary) {
		return fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return err
}

// hasher computes ids. Content that was made to collide with other content is refused.
type hasher struct{ hash.Hash }

func newHasher() hasher { return hasher{sha1cd.New()} }

// begin starts the id of an object of that size, which is over its kind, its size and its bytes.
func (h hasher) begin(k kind, size int64) {
	h.Reset()
	head := append([]byte(k.String()), ' ')
	head = append(strconv.AppendInt(head, size, 10), 0)
	_, _ = h.Write(head) // hashes never fail
}

// end returns the id of the object that begin started.
func (h hasher) end() (ID, error) {
	safe, ok := h.Hash.(sha1cd.CollisionResistantHash)
	if !ok {
		return ID(h.Sum(nil)), nil
	}
	sum, collides := safe.CollisionResistantSum(nil)
	if collides {
		return ID{}, fmt.Errorf("%w: object made to collide with another one", ErrMalformed)
	}
	return ID(sum), nil
}

// sumOf reads n bytes, writes them to w, and returns the CRC-32 of them and the bytes that crc
// covers.
func sumOf(r *bufio.Reader, n int64, crc uint32, w io.Writer) (uint32, error) {
	for n > 0 {
		part, err := r.Peek(int(min(n, int64(r.Size()))))
		if err != nil {
			return 0, err
		}
		crc = crc32.Update(crc, crc32.IEEETable, part)
		if _, err := w.Write(part); err != nil {
			return 0, err
		}
		_, _ = r.Discard(len(part)) // they are buffered
		n -= int64(len(part))
	}
	return crc, nil
}
