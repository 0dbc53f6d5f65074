// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package commitpack

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"errors"
	"fmt"
)

// objectType is a type of objects, by its number in a pack.
type objectType byte

// The types of objects.
const (
	typeCommit objectType = 1
	typeTree   objectType = 2
	typeBlob   objectType = 3
)

// String returns the type's name, which begins what an object's id is the hash of.
func (t objectType) String() string { return [...]string{"", "commit", "tree", "blob"}[t] }

// object is a new object.
type object struct {
	id   string
	kind objectType
	text []byte
}

// pack returns the objects as a pack of version 2, without deltas: a few whole objects are small,
// and every server reads them.
func (m *maker) pack() ([]byte, error) {
	var b bytes.Buffer
	b.WriteString("PACK")
	b.Write(binary.BigEndian.AppendUint32(nil, 2))
	b.Write(binary.BigEndian.AppendUint32(nil, uint32(len(m.objects))))
	for _, o := range m.objects {
		b.Write(packHeader(o.kind, len(o.text)))
		w := zlib.NewWriter(&b)
		_, err := w.Write(o.text)
		if err = errors.Join(err, w.Close()); err != nil {
			return nil, fmt.Errorf("compress object: %w", err)
		}
	}
	sum := m.newHash()
	sum.Write(b.Bytes())
	return sum.Sum(b.Bytes()), nil
}

// packHeader returns the type and the size of an object: four bits of the size beside the type, and
// seven in each byte that follows.
func packHeader(kind objectType, size int) []byte {
	header := []byte{byte(kind)<<4 | byte(size&0x0f)}
	for size >>= 4; size > 0; size >>= 7 {
		header[len(header)-1] |= 0x80
		header = append(header, byte(size&0x7f))
	}
	return header
}
