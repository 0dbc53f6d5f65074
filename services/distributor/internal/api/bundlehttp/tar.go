// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package bundlehttp

import (
	"errors"
	"fmt"
	"io"

	"github.com/leatdev/leat/internal/contract/bundle"
	"github.com/leatdev/leat/internal/contract/cas"
	"github.com/leatdev/leat/internal/contract/digest"
)

// tarFile is the content of a blob, which can be read from any byte on: to go back decompresses
// again from the first one. A read of the whole fails before its last bytes unless they match the
// blob's digest: bytes that were right once may have been damaged on the disk since. It is for one
// goroutine.
type tarFile struct {
	blob *cas.Blob
	at   int64 // where the next Read begins

	content io.ReadCloser // nil before the first Read
	passed  int64         // how many bytes of content were read
	behind  io.Reader     // content, and in the end the verdict on it
	// ahead is read and not passed on: its last bytes wait for the verdict.
	ahead  []byte
	err    error // after ahead
	buffer []byte
}

// aheadBytes is how much is held back until it is known to be right, or not to be the end.
const aheadBytes = 32 << 10

// Seek implements io.Seeker. It does no work.
func (f *tarFile) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += f.at
	case io.SeekEnd:
		offset += f.blob.ContentSize
	}
	if offset < 0 {
		return 0, errors.New("seek before the first byte")
	}
	f.at = offset
	return offset, nil
}

// Read implements io.Reader.
func (f *tarFile) Read(p []byte) (int, error) {
	if f.content == nil || f.passed > f.at {
		if f.err = f.open(); f.err != nil {
			return 0, f.err
		}
	}
	if skip := f.at - f.passed; skip > 0 {
		if n, err := io.CopyN(io.Discard, readerFunc(f.pass), skip); err != nil {
			return 0, fmt.Errorf("skip to byte %d, and reach %d: %w", f.at, n, err)
		}
	}
	n, err := f.pass(p)
	f.at = f.passed
	return n, err
}

// Close frees the memory. It does not close the blob.
func (f *tarFile) Close() error {
	if f.content == nil {
		return nil
	}
	content := f.content
	f.content = nil
	return content.Close()
}

// failure is why a Read failed; nil if none did.
func (f *tarFile) failure() error {
	if errors.Is(f.err, io.EOF) {
		return nil
	}
	return f.err
}

// open begins with the first byte again.
func (f *tarFile) open() error {
	if err := f.Close(); err != nil {
		return err
	}
	if _, err := f.blob.Seek(0, io.SeekStart); err != nil {
		return err
	}
	content, err := bundle.Decompress(f.blob, f.blob.ContentSize)
	if err != nil {
		return err
	}
	f.content, f.behind = content, digest.NewVerifier(content, f.blob.Digest)
	f.passed, f.ahead = 0, nil
	return nil
}

// pass passes on what was read ahead, once more is read: what follows the last bytes is the verdict.
func (f *tarFile) pass(p []byte) (int, error) {
	if len(f.ahead) == 0 && f.err == nil {
		f.ahead, f.err = f.fill()
	}
	if f.err != nil && !errors.Is(f.err, io.EOF) {
		return 0, f.err
	}
	if len(f.ahead) == 0 {
		return 0, f.err
	}
	n := copy(p, f.ahead)
	if f.ahead = f.ahead[n:]; len(f.ahead) == 0 && f.err == nil {
		// The next bytes are read before these are passed on, so that an error takes their place.
		if f.ahead, f.err = f.fill(); f.err != nil && !errors.Is(f.err, io.EOF) {
			return 0, f.err
		}
	}
	f.passed += int64(n)
	return n, nil
}

// fill reads more into the buffer, of which nothing is needed any more. The error is the verdict at the end.
func (f *tarFile) fill() ([]byte, error) {
	if f.buffer == nil {
		f.buffer = make([]byte, aheadBytes)
	}
	n, err := io.ReadFull(f.behind, f.buffer)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		_, err = f.behind.Read(nil) // which repeats its end; ReadFull has its own words
	}
	return f.buffer[:n], err
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }
