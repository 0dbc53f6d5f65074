// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package artifactstore

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/leatdev/leat/internal/contract/bundle"
	"github.com/leatdev/leat/services/gitcache/internal/artifact"
	"github.com/leatdev/leat/services/gitcache/internal/content"
)

// The file of an artifact is magic, the length of its compressed listing in 8 bytes, the listing as
// JSON, and the content of all files one after the other in the order of their names; the last two
// are compressed by zstd, each on its own.
const magic = "leat artifact 1\n"

const (
	headBytes = int64(len(magic) + 8)
	// maxListing bounds the JSON of a listing.
	maxListing = 128 << 20
)

// writeArtifact writes the file of an artifact. open returns the content of its files.
func writeArtifact(w io.Writer, l *artifact.Listing, open func(artifact.File) io.Reader) error {
	listing, err := json.Marshal(l.Files())
	if err != nil {
		return fmt.Errorf("encode listing: %w", err)
	}
	var packed lengthWriter
	if err := compress(&packed, func(w io.Writer) error { _, err := w.Write(listing); return err }); err != nil {
		return err
	}
	head := binary.BigEndian.AppendUint64([]byte(magic), uint64(len(packed)))
	if _, err := w.Write(append(head, packed...)); err != nil {
		return err
	}
	return compress(w, func(w io.Writer) error {
		for _, f := range l.Files() {
			n, err := io.Copy(w, open(f))
			if err == nil && n != f.Size {
				err = fmt.Errorf("got %d bytes of %q, want %d", n, f.Name, f.Size)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// lengthWriter collects bytes.
type lengthWriter []byte

// Write implements io.Writer.
func (l *lengthWriter) Write(p []byte) (int, error) {
	*l = append(*l, p...)
	return len(p), nil
}

func compress(w io.Writer, write func(io.Writer) error) error {
	compressed, err := bundle.Compress(w)
	if err != nil {
		return err
	}
	return errors.Join(write(compressed), compressed.Close())
}

// contentBegin returns where the content of an artifact's file begins. The error matches
// content.ErrDamaged where that is not what was written.
func contentBegin(f *os.File) (int64, error) {
	var head [headBytes]byte
	if _, err := f.ReadAt(head[:], 0); err != nil || string(head[:len(magic)]) != magic {
		return 0, fmt.Errorf("%w: an artifact has no head", content.ErrDamaged)
	}
	length := binary.BigEndian.Uint64(head[len(magic):])
	if length > maxListing {
		return 0, fmt.Errorf("%w: a listing of %d bytes", content.ErrDamaged, length)
	}
	return headBytes + int64(length), nil
}

// readListing reads the listing at the beginning of an artifact's file, and returns where the
// content begins. The error matches content.ErrDamaged where that is not what was written.
func readListing(f *os.File) (*artifact.Listing, int64, error) {
	begin, err := contentBegin(f)
	if err != nil {
		return nil, 0, err
	}
	plain, err := bundle.Decompress(io.NewSectionReader(f, headBytes, begin-headBytes), maxListing)
	if err != nil {
		return nil, 0, fmt.Errorf("%w: %w", content.ErrDamaged, err)
	}
	defer func() { _ = plain.Close() }()
	var files []artifact.File
	if err := json.NewDecoder(plain).Decode(&files); err != nil {
		return nil, 0, fmt.Errorf("%w: %w", content.ErrDamaged, err)
	}
	for _, file := range files {
		if file.Size < 0 || !artifact.IsDigest(file.Sum) || file.Kind < content.KindFile || file.Kind > content.KindSymlink ||
			bundle.CheckName(file.Name) != nil {
			return nil, 0, fmt.Errorf("%w: a listing has %q", content.ErrDamaged, file.Name)
		}
	}
	l, err := artifact.NewListing(files)
	if err != nil {
		return nil, 0, fmt.Errorf("%w: %w", content.ErrDamaged, err)
	}
	return l, begin, nil
}
