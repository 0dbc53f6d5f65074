// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package bundle

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"

	"github.com/klauspost/compress/zstd"

	"github.com/leatdev/leat/internal/contract/digest"
)

// A delta leads from one bundle, the base, to another. It lists entry by entry what stays, goes, is
// added and changes, so a client that has the base can rebuild the other bundle's canonical tar
// byte for byte. The format is specified in docs/reference/protocol/delta.md.

// DeltaMediaType names a compressed delta in HTTP.
const DeltaMediaType = "application/vnd.leat.bundle-delta.v1+zstd"

// ErrWrongBase means that a delta cannot be applied to the base at hand: the delta was made from
// another base, or the base's content does not match its digest or cannot be read. With the right
// base the same delta may be good.
var ErrWrongBase = errors.New("wrong base of delta")

// Tar is an unverified canonical tar and the digest that it should have.
type Tar struct {
	Digest  digest.Digest
	Content io.Reader
}

const (
	deltaMagic = "leat delta 1\n"
	// deltaOverhead is how much longer than its target tar a delta can be. In practice it is a few
	// hundred bytes.
	deltaOverhead = 1 << 20
	// maxDictionary is the largest file that is compressed against another version of itself, and
	// the largest such version. Two files of that size fit into the window of every decoder.
	maxDictionary = decoderWindow / 2
)

// The instructions of a delta.
const (
	opKeep   = 'k' // entries of the base stay
	opDrop   = 'd' // entries of the base go
	opAdd    = 'a' // an entry that is given whole
	opSplice = 's' // a file of the base with a piece of it replaced
	opPatch  = 'p' // a file compressed against the base's file
	opEnd    = 'e'
)

// The kinds of entries.
const (
	kindFile       = 'f'
	kindExecutable = 'x'
	kindSymlink    = 'l'
)

// DeltaLimit returns the largest uncompressed size of a delta whose target is a bundle within the
// limits; see [Decompress].
func DeltaLimit(limits Limits) int64 {
	return limits.WithDefaults().Bytes + deltaOverhead
}

func kindOf(e Entry) byte {
	switch {
	case e.IsSymlink():
		return kindSymlink
	case e.Executable:
		return kindExecutable
	default:
		return kindFile
	}
}

// appendText appends a length and that many bytes.
func appendText(dst []byte, text string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(text))), text...)
}

// rawDictionary is the ID of dictionaries that are plain content. Frames do not carry it.
const rawDictionary = 0

// dictionaryEncoder makes frames against one dictionary after another. It takes a higher
// compression level for large files, because only larger tables find one changed line in megabytes
// of incompressible data. For small files those tables would cost more than they save.
type dictionaryEncoder struct {
	small, large *zstd.Encoder // made when first needed
	frame        bytes.Buffer
}

// smallDictionary is the largest dictionary that the tables of the ordinary level cover completely.
const smallDictionary = 64 << 10

// encode returns a frame, which is valid until the next call. It does not use EncodeAll, which
// would need the memory of a second encoder beside the stream's, and changing the dictionary sets
// up a stream in any case.
func (d *dictionaryEncoder) encode(dictionary, content []byte) ([]byte, error) {
	encoder, level, window := &d.small, zstd.SpeedDefault, maxDictionary/4
	if len(dictionary) > smallDictionary {
		encoder, level, window = &d.large, zstd.SpeedBetterCompression, decoderWindow
	}
	d.frame.Reset()
	options := []zstd.EOption{zstd.WithEncoderDictRaw(rawDictionary, dictionary)}
	var err error
	if *encoder != nil {
		err = (*encoder).ResetWithOptions(&d.frame, options...)
	} else {
		options = append(options, zstd.WithEncoderLevel(level), zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(window))
		*encoder, err = zstd.NewWriter(&d.frame, options...)
	}
	if err == nil {
		_, err = (*encoder).Write(content)
	}
	if err == nil {
		err = (*encoder).Close()
	}
	return d.frame.Bytes(), err
}
