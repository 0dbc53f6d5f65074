// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package casdisk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/leatdev/leat/internal/contract/cas"
	"github.com/leatdev/leat/internal/contract/cas/casdisk/blobindex"
	"github.com/leatdev/leat/internal/contract/digest"
)

const (
	// touchEvery limits how often reads of one blob write its modification time; eviction order
	// after a restart is that precise.
	touchEvery = time.Minute
	// maxChecks bounds how often one Open checks a blob whose file keeps changing.
	maxChecks = 3
)

var (
	// errDamaged is the error of a read that finds damage.
	errDamaged = errors.New("stored blob is damaged; it was dropped")
	// errReplaced means that the blob of that name was replaced or removed.
	errReplaced = errors.New("blob was replaced")
	// errUnproven means that a blob's bytes have to be verified before they are returned.
	errUnproven = errors.New("blob is not proven")
)

// Open implements [cas.Store].
func (s *Store) Open(ctx context.Context, d digest.Digest) (*cas.Blob, error) {
	blob, err := s.open(ctx, d)
	if err != nil {
		return nil, fmt.Errorf("open blob %s: %w", d, err)
	}
	return blob, nil
}

func (s *Store) open(ctx context.Context, d digest.Digest) (*cas.Blob, error) {
	for checks := 0; ; {
		e, known, ok := s.index.Get(d)
		if !ok {
			return nil, cas.ErrNotFound
		}
		blob, err := s.openTrusted(ctx, e, known)
		if errors.Is(err, errUnproven) {
			if checks++; checks <= maxChecks {
				err = s.checkOnce(ctx, d)
			} else {
				err = s.drop(ctx, e, errors.New("file does not come to rest"))
			}
		}
		if blob != nil || (err != nil && !errors.Is(err, errReplaced)) {
			return blob, err
		}
	}
}

// openTrusted opens a blob whose bytes were verified and have not changed since. Otherwise the
// error is errUnproven.
func (s *Store) openTrusted(ctx context.Context, e *blobindex.Entry, known blobindex.Facts) (*cas.Blob, error) {
	if !known.Verified {
		return nil, errUnproven
	}
	f, err := s.openFile(ctx, e)
	if err != nil {
		return nil, err
	}
	err = errReplaced
	s.index.Update(e, func(now *blobindex.Facts) {
		known, err = *now, nil
		// Compare under the lock, so that no other goroutine sets the time at this moment.
		if stat, failed := f.stat(); failed != nil || !known.Verified || !stat.ModTime().Equal(known.Modified) {
			err = errUnproven
		}
	})
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	s.touch(e, f)
	f.read = OpServe
	return &cas.Blob{Info: e.Describe(known), ReadSeekCloser: &reader{file: f, store: s, entry: e}}, nil
}

// openFile opens a blob's file. It drops a blob whose file is gone or has changed its length.
func (s *Store) openFile(ctx context.Context, e *blobindex.Entry) (*file, error) {
	f, err := s.disk.open(s.folder.path(e.Info))
	if err != nil {
		return nil, s.unopened(ctx, e, err)
	}
	stat, err := f.stat()
	if err == nil && stat.Size() == e.Info.StoredSize {
		return f, nil
	}
	if err == nil {
		err = s.drop(ctx, e, fmt.Errorf("file has %d bytes, want %d", stat.Size(), e.Info.StoredSize))
	} else {
		err = s.unopened(ctx, e, err)
	}
	return nil, errors.Join(err, f.Close())
}

// unopened distinguishes damage from passing trouble, such as too many open files.
func (s *Store) unopened(ctx context.Context, e *blobindex.Entry, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if !s.index.Forget(e) { // there is no file to remove
			return errReplaced
		}
		return cas.ErrNotFound
	case errors.Is(err, syscall.EIO):
		return s.drop(ctx, e, err)
	}
	return err
}

// touch makes the blob the last one to be evicted: immediately in memory, and at most once every
// touchEvery for the order after a restart.
func (s *Store) touch(e *blobindex.Entry, f *file) {
	s.index.Read(e)
	s.index.Update(e, func(known *blobindex.Facts) {
		now := time.Now()
		if now.Sub(known.Modified) < touchEvery {
			return
		}
		if s.disk.touch(f.path, now) != nil {
			return // costs only precision: after a restart the blob looks older than it is
		}
		stat, err := f.stat() // not every file system keeps nanoseconds
		if known.Verified = err == nil; known.Verified {
			known.Modified = stat.ModTime()
		}
	})
}

// checkOnce reads a blob. Concurrent callers share one read, and a caller that gives up does not
// stop it for the others. The error is cas.ErrNotFound for a damaged blob, which has been dropped.
func (s *Store) checkOnce(ctx context.Context, d digest.Digest) error {
	_, err := s.checking.Do(ctx, d, func(ctx context.Context) (struct{}, error) {
		e, _, ok := s.index.Get(d)
		if !ok {
			return struct{}{}, cas.ErrNotFound
		}
		return struct{}{}, s.check(ctx, e, func(f *file) io.Reader { return f })
	})
	return err
}

// check reads a blob through the reader that through returns, and drops it unless its bytes are
// right.
func (s *Store) check(ctx context.Context, e *blobindex.Entry, through func(*file) io.Reader) error {
	f, err := s.openFile(ctx, e)
	if err != nil {
		return err
	}
	defer f.Close()
	modified, err := s.seal(e, f)
	if err != nil {
		return err
	}
	got, err := s.checkBytes(ctx, e, f, through(f))
	switch {
	case err == nil:
		s.index.CheckedNow(e, func(known *blobindex.Facts) {
			known.Stored, known.Verified, known.Modified = got, true, modified
		})
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return s.drop(ctx, e, err)
}

// seal returns the file's time, and any later change of the file changes that time. Where the store
// did not set the time, seal sets it: the kernel's clock for files may be the same for several
// changes.
func (s *Store) seal(e *blobindex.Entry, f *file) (modified time.Time, err error) {
	stat, err := f.stat()
	if err != nil {
		return time.Time{}, err
	}
	s.index.Update(e, func(known *blobindex.Facts) { modified = known.Modified })
	if stat.ModTime().Equal(modified) {
		return modified, nil
	}
	if err := s.disk.touch(f.path, time.Now()); err != nil {
		return time.Time{}, err
	}
	if stat, err = f.stat(); err != nil {
		return time.Time{}, err
	}
	return stat.ModTime(), nil
}

// checkBytes verifies the bytes of f that r reads, by their own digest if it is known and by their
// content otherwise. It returns their own digest.
func (s *Store) checkBytes(
	ctx context.Context, e *blobindex.Entry, f *file, r io.Reader,
) (stored digest.Digest, err error) {
	s.index.Update(e, func(known *blobindex.Facts) { stored = known.Stored })
	if !stored.IsZero() {
		_, err := io.Copy(io.Discard, digest.NewVerifier(r, stored))
		return stored, err
	}
	got, err := cas.Check(ctx, io.Discard, r, e.Info.Digest, s.cfg.MaxContentBytes)
	switch {
	case err != nil:
		return digest.Digest{}, err
	case got.ContentSize != e.Info.ContentSize:
		err := fmt.Errorf("%w: content has %d bytes, want %d", cas.ErrCorrupt, got.ContentSize, e.Info.ContentSize)
		return digest.Digest{}, err
	}
	return got.StoredDigest, readAgain(f, got)
}

// readAgain compares the bytes of f with their digest, which one reading has found. Some bits of
// zstd have no meaning, such as the unused one of a frame's header: a reading that got one of them wrong
// still has the right content, but another digest than the bytes that will be served. The second
// reading mostly comes from the kernel's cache, and decompresses nothing.
func readAgain(f *file, got cas.Info) error {
	_, err := io.Copy(io.Discard, digest.NewVerifier(io.NewSectionReader(f, 0, got.StoredSize), got.StoredDigest))
	return err
}

// drop removes a blob whose bytes have changed, and returns cas.ErrNotFound, or errReplaced if it
// was no longer there. It does not matter if the disk cannot remove the file, because the blob is
// no longer listed.
func (s *Store) drop(ctx context.Context, e *blobindex.Entry, damage error) error {
	if !s.index.Discard(e) {
		return errReplaced
	}
	s.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "damaged blob dropped",
		slog.String("digest", e.Info.Digest.String()), slog.Any("error", damage))
	if s.cfg.Hooks.Corrupt != nil {
		s.cfg.Hooks.Corrupt(e.Info.Digest, damage)
	}
	return cas.ErrNotFound
}

// reader is an open blob. When a read finds damage, the store drops the blob, so the next caller
// fetches it again. The kernel can copy from it: see SyscallConn.
type reader struct {
	file  *file
	store *Store
	entry *blobindex.Entry
	// kernel reports that the caller may have read without Read.
	kernel atomic.Bool
}

// Read implements io.Reader.
func (r *reader) Read(p []byte) (int, error) {
	n, err := r.file.Read(p)
	return n, r.judge(err, func() (int64, error) { return r.file.os.Seek(0, io.SeekCurrent) })
}

// ReadAt implements io.ReaderAt.
func (r *reader) ReadAt(p []byte, offset int64) (int, error) {
	n, err := r.file.ReadAt(p, offset)
	return n, r.judge(err, func() (int64, error) { return offset + int64(n), nil })
}

// judge returns the error of a read that reached the position at, and drops the blob if the read
// ended early or failed.
func (r *reader) judge(err error, at func() (int64, error)) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, io.EOF) {
		if position, failed := at(); failed == nil && position >= r.entry.Info.StoredSize {
			return err
		}
		err = errors.New("file ends early") // not io.ErrUnexpectedEOF, which some readers take for the end of a last piece
	}
	_ = r.store.drop(context.Background(), r.entry, err)
	return fmt.Errorf("%w: %w", errDamaged, err)
}

// Seek implements io.Seeker.
func (r *reader) Seek(offset int64, whence int) (int64, error) {
	return r.file.os.Seek(offset, whence)
}

// SyscallConn implements syscall.Conn, by which net hands the file to the kernel to copy from.
func (r *reader) SyscallConn() (syscall.RawConn, error) {
	r.kernel.Store(true)
	return r.file.os.SyscallConn()
}

// Close implements io.Closer. The kernel does not report why it stopped copying, so Close reads the byte at which
// it did.
func (r *reader) Close() error {
	if r.kernel.Load() {
		if position, err := r.Seek(0, io.SeekCurrent); err == nil && position < r.entry.Info.StoredSize {
			_, _ = r.ReadAt(make([]byte, 1), position) // its error drops a damaged blob
		}
	}
	return r.file.Close()
}
