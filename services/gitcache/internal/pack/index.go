// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package pack

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"

	"github.com/leatdev/leat/internal/kit/durable"
)

// Entry is an object's place in a pack.
type Entry struct {
	ID     ID
	CRC    uint32 // of its bytes in the pack
	Offset int64
}

// Index is the index of a pack. It is immutable.
type Index struct {
	data  []byte // the whole file
	count int
	width int // bytes of a name
}

// The form of an index, version 2: a header; for each first byte of a name, how many names begin
// with that byte or a lesser one; names, checksums and offsets, each as a table in the order of the
// names; offsets beyond 31 bits; and the checksums of the pack and of the index.
const (
	indexHeader = 8
	fanoutSize  = 256 * 4
	largeOffset = 1 << 31
)

var indexMagic = []byte{0xff, 't', 'O', 'c', 0, 0, 0, 2}

// ReadIndex reads an index whole, about 28 bytes for each object, and checks its checksum.
func ReadIndex(path string) (*Index, error) {
	x, err := readIndex(path)
	if err != nil {
		return nil, err
	}
	data := x.data
	sum := sha1.Sum(data[:len(data)-sumSize])
	if !bytes.Equal(sum[:], data[len(data)-sumSize:]) {
		return nil, fmt.Errorf("%w: %s does not match its checksum", ErrMalformed, path)
	}
	return x, nil
}

// readIndex is ReadIndex for callers that check what they find by it.
func readIndex(path string) (*Index, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read index: %w", err)
	}
	x := &Index{data: data, width: widthOf(path)}
	least := indexHeader + fanoutSize + 2*x.width
	if len(data) < least || !bytes.HasPrefix(data, indexMagic) {
		return nil, fmt.Errorf("%w: %s is no index", ErrMalformed, path)
	}
	x.count = int(binary.BigEndian.Uint32(data[indexHeader+255*4:]))
	if len(data) < least+x.count*(x.width+8) {
		return nil, fmt.Errorf("%w: %s is cut off", ErrMalformed, path)
	}
	return x, nil
}

// widthOf returns how many bytes names have in a pack. Git calls a pack by a checksum of the same
// kind.
func widthOf(path string) int {
	const digits = 2 * sha256.Size
	if len(filepath.Base(path)) == len("pack-")+digits+len(".idx") {
		return sha256.Size
	}
	return sumSize
}

// Len is the number of objects.
func (x *Index) Len() int { return x.count }

// At returns an object by its place among the ids, which rise. The pack's names are of SHA-1.
func (x *Index) At(i int) Entry {
	return Entry{ID: ID(x.name(i)), CRC: binary.BigEndian.Uint32(x.data[x.crcs()+4*i:]), Offset: x.offset(i)}
}

func (x *Index) crcs() int { return indexHeader + fanoutSize + x.count*x.width }

// offset returns where an object begins in the pack. An index may name any offset, so callers check
// it.
func (x *Index) offset(i int) int64 {
	offsets := x.crcs() + 4*x.count
	offset := binary.BigEndian.Uint32(x.data[offsets+4*i:])
	if offset < largeOffset {
		return int64(offset)
	}
	large := offsets + 4*x.count + 8*int(offset-largeOffset)
	if large+8 > len(x.data) {
		return 0
	}
	return int64(binary.BigEndian.Uint64(x.data[large:]))
}

func (x *Index) name(i int) []byte {
	at := indexHeader + fanoutSize + i*x.width
	return x.data[at : at+x.width]
}

// Find returns the place of an id; false: the pack does not hold it.
func (x *Index) Find(id ID) (int, bool) { return x.find(id[:]) }

// find is Find for names of both kinds. A pack holds none of the other kind.
func (x *Index) find(name []byte) (int, bool) {
	if len(name) != x.width {
		return 0, false
	}
	return sort.Find(x.count, func(i int) int { return bytes.Compare(name, x.name(i)) })
}

// prefixed appends the names that begin with these hexadecimal digits.
func (x *Index) prefixed(to []string, prefix string) []string {
	first := sort.Search(x.count, func(i int) bool { return hex.EncodeToString(x.name(i)) >= prefix })
	for i := first; i < x.count; i++ {
		name := hex.EncodeToString(x.name(i))
		if !strings.HasPrefix(name, prefix) {
			break
		}
		to = append(to, name)
	}
	return to
}

// inPackOrder returns all objects as the pack has them one after the other.
func (x *Index) inPackOrder() []Entry {
	entries := make([]Entry, x.count)
	for i := range entries {
		entries[i] = x.At(i)
	}
	slices.SortFunc(entries, func(a, b Entry) int { return cmp.Compare(a.Offset, b.Offset) })
	return entries
}

// writeIndex writes the index of a pack with that checksum, durably. It sorts the entries.
func writeIndex(path string, entries []Entry, sum []byte) error {
	slices.SortFunc(entries, func(a, b Entry) int { return bytes.Compare(a.ID[:], b.ID[:]) })
	return durable.Write(path, TemporaryPrefix, func(w io.Writer) error {
		hash := sha1.New()
		b := bufio.NewWriter(io.MultiWriter(w, hash))
		_, _ = b.Write(indexMagic) // errors stick until Flush
		appendTables(b, entries)
		_, _ = b.Write(sum)
		if err := b.Flush(); err != nil {
			return err
		}
		_, err := w.Write(hash.Sum(nil))
		return err
	})
}

// Received is a pack that is whole and durable under its name.
type Received struct {
	Name    string // without an ending
	Objects int
	Bytes   int64
	// Made is how many bytes applying deltas produced. An object that was made twice counts twice.
	// [Merge] leaves it zero.
	Made int64
}

// publish gives a pack, whole and durable in a temporary file, its name in dir, and makes its index.
// The pack comes last, so that listing packs finds the index of each.
func publish(temporary, dir string, entries []Entry, sum []byte, size int64) (Received, error) {
	got := Received{Name: "pack-" + hex.EncodeToString(sum), Objects: len(entries), Bytes: size}
	path := filepath.Join(dir, got.Name)
	if err := writeIndex(path+".idx", entries, sum); err != nil {
		return Received{}, err
	}
	return got, os.Rename(temporary, path+".pack")
}

// appendTables writes the tables of an index.
func appendTables(b *bufio.Writer, entries []Entry) {
	word := func(v uint32) { _, _ = b.Write(binary.BigEndian.AppendUint32(b.AvailableBuffer(), v)) }
	upTo := 0
	for first := range 256 {
		for upTo < len(entries) && int(entries[upTo].ID[0]) <= first {
			upTo++
		}
		word(uint32(upTo))
	}
	for _, e := range entries {
		_, _ = b.Write(e.ID[:])
	}
	for _, e := range entries {
		word(e.CRC)
	}
	var large []int64
	for _, e := range entries {
		if e.Offset < largeOffset {
			word(uint32(e.Offset))
			continue
		}
		word(uint32(largeOffset + len(large)))
		large = append(large, e.Offset)
	}
	for _, offset := range large {
		_, _ = b.Write(binary.BigEndian.AppendUint64(b.AvailableBuffer(), uint64(offset)))
	}
}

// Objects is how many objects a pack has whose index is of that size, or a few more.
func Objects(indexSize int64) int64 {
	const each = int64(len(ID{})) + 8
	return max(0, (indexSize-indexHeader-fanoutSize-2*sumSize)/each)
}

// Sizes goes through a pack's objects with the bytes that each takes in it.
func Sizes(path string) (iter.Seq2[ID, int64], error) {
	index, err := ReadIndex(strings.TrimSuffix(path, ".pack") + ".idx")
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("measure pack: %w", err)
	}
	s := &source{entries: index.inPackOrder(), end: info.Size() - sumSize}
	return func(yield func(ID, int64) bool) {
		for i, e := range s.entries {
			if !yield(e.ID, s.endOf(i)-e.Offset) {
				return
			}
		}
	}, nil
}
