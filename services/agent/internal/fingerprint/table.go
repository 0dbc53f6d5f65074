// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fingerprint

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/leatdev/leat/services/agent/internal/inventory"
)

// Kept is the part of an Entry that survives a restart. With it the agent notices what others
// changed meanwhile.
type Kept struct {
	// Manifest is the Desired sum of the last applied manifest. It is zero if that is unknown, or
	// if the apply of another manifest has begun.
	Manifest Sum
	// Applied is the Live sum of the API server's answer to that apply.
	Applied Sum
}

// Entry is the recorded state of one object. In the zero Entry everything is unknown.
type Entry struct {
	Kept

	// Server is the Live sum of the last observed state, or zero before the first observation.
	Server Sum
	// Version is the resource version of Server, or zero if it is unknown.
	Version uint64
}

// HasDrifted reports whether the object differs from its state after the apply.
func (e Entry) HasDrifted() bool {
	return !e.Applied.IsZero() && !e.Server.IsZero() && e.Applied != e.Server
}

// Table holds the kept entries of a service's objects.
type Table map[inventory.Key]Kept

// ErrMalformed is matched by errors about a table that cannot be read.
var ErrMalformed = errors.New("malformed fingerprints")

// magic begins an encoded table. Code with other sums uses another number, because its sums cannot
// be compared with these.
const magic = "leat-fingerprints-1\n"

// Encode returns the encoded table, with a checksum at its end.
func (t Table) Encode() []byte {
	out := append(make([]byte, 0, len(magic)+len(t)*96+sha256.Size), magic...)
	out = binary.AppendUvarint(out, uint64(len(t)))
	for key, kept := range t {
		for _, text := range [...]string{key.Group, key.Kind, key.Namespace, key.Name} {
			out = append(binary.AppendUvarint(out, uint64(len(text))), text...)
		}
		out = append(append(out, kept.Manifest[:]...), kept.Applied[:]...)
	}
	checksum := sha256.Sum256(out)
	return append(out, checksum[:]...)
}

// DecodeTable decodes the result of Encode. Errors match ErrMalformed; the caller then treats
// everything as unknown.
func DecodeTable(encoded []byte) (Table, error) {
	content := encoded[:max(0, len(encoded)-sha256.Size)]
	if checksum := sha256.Sum256(content); string(checksum[:]) != string(encoded[len(content):]) {
		return nil, fmt.Errorf("%w: the checksum differs", ErrMalformed)
	}
	if len(content) < len(magic) || string(content[:len(magic)]) != magic {
		return nil, fmt.Errorf("%w: another format", ErrMalformed)
	}
	r := reader{rest: content[len(magic):]}
	t := Table{}
	for range r.length() {
		key := inventory.Key{Group: r.text(), Kind: r.text(), Namespace: r.text(), Name: r.text()}
		t[key] = Kept{Manifest: r.sum(), Applied: r.sum()}
		if r.broken {
			break
		}
	}
	if r.broken || len(r.rest) > 0 {
		return nil, fmt.Errorf("%w: the content is too short or too long", ErrMalformed)
	}
	return t, nil
}

// reader reads an encoded table. Once it is broken it returns zero values.
type reader struct {
	rest   []byte
	broken bool
}

func (r *reader) length() uint64 {
	length, size := binary.Uvarint(r.rest)
	if size <= 0 {
		r.broken, r.rest = true, nil
		return 0
	}
	r.rest = r.rest[size:]
	return length
}

func (r *reader) bytes(length uint64) []byte {
	if length > uint64(len(r.rest)) {
		r.broken, r.rest = true, nil
		return nil
	}
	part := r.rest[:length]
	r.rest = r.rest[length:]
	return part
}

func (r *reader) text() string { return string(r.bytes(r.length())) }

func (r *reader) sum() (s Sum) {
	copy(s[:], r.bytes(uint64(len(s))))
	return s
}
