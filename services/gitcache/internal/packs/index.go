// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package packs

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"sort"
)

const (
	indexMagic   = "\xfftOc\x00\x00\x00\x02"
	fanoutSize   = 256 * 4
	idSize       = len(ID{})
	checksumSize = 4
	offsetSize   = 4
	largeSize    = 8
	trailersSize = 2 * idSize
	// largeOffset marks an offset that is the number of a larger one.
	largeOffset = 1 << 31
)

// index finds where in a pack an object is: the file as it is on disk, of version 2.
type index struct {
	count   int
	fanout  []byte // how many ids begin with at most each byte
	ids     []byte // rising
	offsets []byte
	large   []byte
}

func readIndex(path string) (index, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return index{}, err
	}
	x, ok := parseIndex(data)
	if !ok {
		return index{}, fmt.Errorf("%w: index %s", ErrMalformed, filepath.Base(path))
	}
	return x, nil
}

func parseIndex(data []byte) (index, bool) {
	data, ok := bytes.CutPrefix(data, []byte(indexMagic))
	if !ok || len(data) < fanoutSize+trailersSize {
		return index{}, false
	}
	x := index{fanout: data[:fanoutSize]}
	x.count = int(binary.BigEndian.Uint32(x.fanout[fanoutSize-4:]))
	data = data[fanoutSize : len(data)-trailersSize]
	if len(data)/(idSize+checksumSize+offsetSize) < x.count {
		return index{}, false
	}
	x.ids, data = data[:x.count*idSize], data[x.count*(idSize+checksumSize):]
	x.offsets, x.large = data[:x.count*offsetSize], data[x.count*offsetSize:]
	return x, true
}

// find returns where the object begins.
func (x index) find(id ID) (int64, bool) {
	low, high := 0, int(binary.BigEndian.Uint32(x.fanout[int(id[0])*4:]))
	if id[0] > 0 {
		low = int(binary.BigEndian.Uint32(x.fanout[int(id[0]-1)*4:]))
	}
	if low > high || high > x.count {
		return 0, false
	}
	n := low + sort.Search(high-low, func(i int) bool { return bytes.Compare(x.at(low+i), id[:]) >= 0 })
	if n == high || !bytes.Equal(x.at(n), id[:]) {
		return 0, false
	}
	return x.offset(n)
}

func (x index) at(n int) []byte { return x.ids[n*idSize : (n+1)*idSize] }

func (x index) offset(n int) (int64, bool) {
	offset := binary.BigEndian.Uint32(x.offsets[n*offsetSize:])
	if offset < largeOffset {
		return int64(offset), true
	}
	at := int(offset-largeOffset) * largeSize
	if at+largeSize > len(x.large) {
		return 0, false
	}
	far := binary.BigEndian.Uint64(x.large[at:])
	return int64(far), far <= math.MaxInt64
}
