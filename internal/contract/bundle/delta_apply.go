// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package bundle

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"

	"github.com/leatdev/leat/internal/contract/digest"
)

// ApplyDelta writes to w the canonical tar called to, made from the base and an uncompressed delta;
// see [Decompress]. It is safe for untrusted deltas: it obeys the limits as a [Reader] does, reads
// both inputs once, and holds at most one file of 4 MiB and a window of them in memory. The written
// bytes are verified only once it returns nil. Errors:
//
//   - one that matches [ErrWrongBase]if another base, or the same one undamaged may help;
//   - one that matches [ErrMalformed], [ErrTooLarge] or digest.ErrMismatchif the delta is at fault;
//   - the error of the delta's reader or of w, wrapped.
func ApplyDelta(w io.Writer, from Tar, to digest.Digest, delta io.Reader, limits Limits) error {
	hasher := digest.NewHasher()
	a := &deltaReader{
		in:   bufio.NewReader(delta),
		base: &baseReader{tar: NewReader(digest.NewVerifier(from.Content, from.Digest), limits)},
		out:  NewWriter(io.MultiWriter(hasher, w), limits),
	}
	defer a.close()
	err := a.readHead(from.Digest, to)
	if err == nil {
		err = a.follow()
	}
	if err != nil {
		return fmt.Errorf("apply delta: %w", err)
	}
	if got := hasher.Digest(); got != to {
		return fmt.Errorf("apply delta: %w", &digest.MismatchError{Want: to, Got: got})
	}
	return nil
}

type deltaReader struct {
	in      *bufio.Reader
	base    *baseReader
	out     *Writer
	old     []byte        // content of a file of the base
	decoder *zstd.Decoder // made when first needed
}

func (a *deltaReader) close() {
	if a.decoder != nil {
		a.decoder.Close()
	}
}

func (a *deltaReader) readHead(from, to digest.Digest) error {
	head := make([]byte, len(deltaMagic)+2*digest.Size)
	if _, err := io.ReadFull(a, head); err != nil {
		return err
	}
	if string(head[:len(deltaMagic)]) != deltaMagic {
		return fmt.Errorf("%w: not a delta of a known version", ErrMalformed)
	}
	base, next := head[len(deltaMagic):][:digest.Size], head[len(deltaMagic)+digest.Size:]
	if got := digest.FromSum([digest.Size]byte(base)); got != from {
		return fmt.Errorf("%w: the delta was made from %s, not from %s", ErrWrongBase, got, from)
	}
	if got := digest.FromSum([digest.Size]byte(next)); got != to {
		return fmt.Errorf("%w: the delta leads to %s, not to %s", ErrMalformed, got, to)
	}
	return nil
}

// follow executes the instructions.
func (a *deltaReader) follow() error {
	for {
		op, err := a.in.ReadByte()
		if err != nil {
			return deltaEnd(err)
		}
		switch op {
		case opKeep:
			err = a.repeat(a.keep)
		case opDrop:
			err = a.repeat(func() error {
				_, err := a.base.next()
				return err
			})
		case opAdd:
			err = a.add()
		case opSplice:
			err = a.splice()
		case opPatch:
			err = a.patch()
		case opEnd:
			return a.end()
		default:
			err = fmt.Errorf("%w: unknown instruction %q", ErrMalformed, op)
		}
		if err != nil {
			return err
		}
	}
}

func (a *deltaReader) repeat(do func() error) error {
	n, err := a.number()
	if err == nil && n == 0 {
		err = fmt.Errorf("%w: an instruction that does nothing", ErrMalformed)
	}
	for ; err == nil && n > 0; n-- { // bounded: the base ends
		err = do()
	}
	return err
}

func (a *deltaReader) keep() error {
	e, err := a.base.next()
	if err != nil {
		return err
	}
	return a.write(e, a.base)
}

// write adds an entry to the bundle.
func (a *deltaReader) write(e Entry, content io.Reader) error {
	if e.IsSymlink() {
		return a.out.WriteSymlink(e.Name, e.Target)
	}
	return a.out.WriteFile(e.Name, e.Executable, e.Size, content)
}

func (a *deltaReader) add() error {
	kind, err := a.kind()
	if err != nil {
		return err
	}
	e := Entry{Executable: kind == kindExecutable}
	if e.Name, err = a.text(); err != nil {
		return err
	}
	if kind == kindSymlink {
		if e.Target, err = a.text(); err != nil {
			return err
		}
		// An empty target is refused here, because WriteSymlink would take an entry with one for a
		// file.
		return a.out.WriteSymlink(e.Name, e.Target)
	}
	if e.Size, err = a.number(); err != nil {
		return err
	}
	return a.write(e, a)
}

// file reads the kind of a file that replaces the next one of the base.
func (a *deltaReader) file() (old, next Entry, err error) {
	kind, err := a.kind()
	if err != nil {
		return old, next, err
	}
	if old, err = a.base.next(); err != nil {
		return old, next, err
	}
	if kind == kindSymlink || old.IsSymlink() {
		return old, next, &EntryError{Name: old.Name, Reason: "is changed as only a file can be"}
	}
	return old, Entry{Name: old.Name, Executable: kind == kindExecutable}, nil
}

// splice writes the head of the base's file, a piece from the delta, and the tail of the base's
// file.
func (a *deltaReader) splice() error {
	old, e, err := a.file()
	if err != nil {
		return err
	}
	var head, piece, tail int64
	for _, length := range []*int64{&head, &piece, &tail} {
		if *length, err = a.number(); err != nil {
			return err
		}
	}
	if head+tail > old.Size {
		return &EntryError{Name: e.Name, Reason: "keeps more of a file than there is"}
	}
	e.Size = head + piece + tail
	return a.write(e, io.MultiReader(
		io.LimitReader(a.base, head),
		io.LimitReader(a, piece),
		&skipReader{in: a.base, skip: old.Size - head - tail},
	))
}

// skipReader skips the first bytes of a reader.
type skipReader struct {
	in   io.Reader
	skip int64
}

func (s *skipReader) Read(p []byte) (int, error) {
	if s.skip > 0 {
		n, err := io.CopyN(io.Discard, s.in, s.skip)
		s.skip -= n
		if err != nil {
			return 0, err
		}
	}
	return s.in.Read(p)
}

// patch decompresses a file with the base's file as dictionary.
func (a *deltaReader) patch() error {
	old, e, err := a.file()
	if err != nil {
		return err
	}
	if e.Size, err = a.number(); err != nil {
		return err
	}
	length, err := a.number()
	if err != nil {
		return err
	}
	if old.Size > maxDictionary || e.Size > maxDictionary {
		return &EntryError{Name: e.Name, Reason: "is too large to be compressed against its base"}
	}
	if length > e.Size {
		return &EntryError{Name: e.Name, Reason: "has a frame that is longer than its content"}
	}
	if a.old, err = readInto(a.old, a.base, old.Size); err != nil {
		return err
	}
	frame, err := a.open(length)
	if err != nil {
		return err
	}
	if err := a.write(e, frame); err != nil {
		return err
	}
	return frame.finish(e.Name)
}

// open starts reading a frame of the given length, with the base's file as dictionary.
func (a *deltaReader) open(length int64) (*frameReader, error) {
	source := &watchedReader{in: io.LimitReader(a, length)}
	dictionary := zstd.WithDecoderDictRaw(rawDictionary, a.old)
	var err error
	if a.decoder == nil {
		a.decoder, err = zstd.NewReader(source, dictionary,
			zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(decoderWindow))
	} else {
		err = a.decoder.ResetWithOptions(source, dictionary)
	}
	if err != nil {
		return nil, source.blame(err)
	}
	return &frameReader{source: source, decoder: a.decoder}, nil
}

// frameReader reads the content of a frame inside a delta.
type frameReader struct {
	source  *watchedReader
	decoder *zstd.Decoder
}

// Read reads content. Its callers know how much to expect, so the end of the frame is an error.
func (f *frameReader) Read(p []byte) (int, error) {
	n, err := f.decoder.Read(p)
	switch {
	case err == nil || n > 0: // an error comes back with the next call
		return n, nil
	case errors.Is(err, io.EOF):
		return 0, fmt.Errorf("%w: a frame holds too little", ErrMalformed)
	default:
		return 0, f.source.blame(err)
	}
}

// finish checks that the frame holds no more content than was read, and that nothing follows it.
func (f *frameReader) finish(name string) error {
	n, err := io.ReadFull(f.decoder, make([]byte, 1))
	switch {
	case n > 0:
		return &EntryError{Name: name, Reason: "has a frame that holds too much"}
	case errors.Is(err, io.EOF):
		return nil
	default:
		return f.source.blame(err)
	}
}

// end checks that the delta and the base have ended, and writes the end of the tar.
func (a *deltaReader) end() error {
	if _, err := a.base.tar.Next(); err == nil {
		return fmt.Errorf("%w: it ends before its base", ErrMalformed)
	} else if err != io.EOF {
		return fmt.Errorf("%w: %w", ErrWrongBase, err)
	}
	if _, err := a.in.ReadByte(); err == nil {
		return fmt.Errorf("%w: bytes after the end", ErrMalformed)
	} else if err != io.EOF {
		return deltaEnd(err)
	}
	return a.out.Close()
}

func (a *deltaReader) kind() (byte, error) {
	kind, err := a.in.ReadByte()
	if err != nil {
		return 0, deltaEnd(err)
	}
	if kind != kindFile && kind != kindExecutable && kind != kindSymlink {
		return 0, fmt.Errorf("%w: unknown kind %q", ErrMalformed, kind)
	}
	return kind, nil
}

// number reads a number: seven bits a byte, the lowest first, with the eighth bit set in every byte
// except the last. Each number has a single encoding, and none is larger than 56 bits, so that
// adding a few of them cannot overflow.
func (a *deltaReader) number() (int64, error) {
	var n int64
	for shift := 0; shift < 56; shift += 7 {
		b, err := a.in.ReadByte()
		if err != nil {
			return 0, deltaEnd(err)
		}
		n |= int64(b&0x7f) << shift
		if b < 0x80 && (b > 0 || shift == 0) {
			return n, nil
		}
		if b == 0 {
			break
		}
	}
	return 0, fmt.Errorf("%w: unreadable number", ErrMalformed)
}

// text reads a name or a target.
func (a *deltaReader) text() (string, error) {
	n, err := a.number()
	if err != nil {
		return "", err
	}
	if n > MaxNameBytes {
		return "", &LimitError{Limit: LimitNameBytes, Max: MaxNameBytes}
	}
	text := make([]byte, n)
	_, err = io.ReadFull(a, text)
	return string(text), err
}

// Read reads content from the delta. Its callers know how much to expect, so the end of the delta
// is an error.
func (a *deltaReader) Read(p []byte) (int, error) {
	n, err := a.in.Read(p)
	if n > 0 || err == nil {
		return n, nil // an error comes back with the next call
	}
	return 0, deltaEnd(err)
}

func deltaEnd(err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return fmt.Errorf("%w: the delta is cut off: %w", ErrMalformed, io.ErrUnexpectedEOF)
	}
	return fmt.Errorf("read delta: %w", err)
}

// baseReader reads the base, and wraps its errors to show that the base failed.
type baseReader struct {
	tar *Reader
}

// next returns the next entry. The base's end is an error of the delta, which asks for more entries
// than the base has.
func (b *baseReader) next() (Entry, error) {
	e, err := b.tar.Next()
	if err == io.EOF {
		return Entry{}, fmt.Errorf("%w: it goes on after the end of its base", ErrMalformed)
	}
	if err != nil {
		return Entry{}, fmt.Errorf("%w: %w", ErrWrongBase, err)
	}
	return e, nil
}

// Read reads the content of the current file.
func (b *baseReader) Read(p []byte) (int, error) {
	n, err := b.tar.Read(p)
	if err == nil || err == io.EOF {
		return n, err
	}
	return n, fmt.Errorf("%w: %w", ErrWrongBase, err)
}
