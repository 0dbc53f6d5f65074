// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package casdisk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"syscall"
	"time"

	"github.com/leatdev/leat/internal/contract/cas"
	"github.com/leatdev/leat/internal/contract/cas/casdisk/blobindex"
	"github.com/leatdev/leat/internal/contract/digest"
)

// shedBytes is how much more than the missing bytes a full disk makes the store evict, so that the
// next few writes do not fail again at once.
const shedBytes = 4 << 20

// Put implements [cas.Store]. A blob that an earlier process left and that has not been verified
// yet is written again. Every Put tries again to remove what could not be removed, so that it is
// counted no longer than it is there.
func (s *Store) Put(ctx context.Context, want digest.Digest, r io.Reader) (cas.Info, error) {
	s.index.Tidy()
	if e, known, ok := s.index.Get(want); ok && known.Verified {
		return e.Describe(known), nil
	}
	return s.Begin(want).Fill(ctx, r)
}

// Begin implements [cas.Store].
func (s *Store) Begin(want digest.Digest) *cas.Draft {
	return cas.NewDraft(func(ctx context.Context, r io.Reader, growth cas.Growth) (cas.Info, error) {
		info, err := s.put(ctx, want, r, growth)
		if err != nil {
			return cas.Info{}, fmt.Errorf("put blob %s: %w", want, full(err))
		}
		return info, nil
	})
}

func (s *Store) put(
	ctx context.Context, want digest.Digest, r io.Reader, growth cas.Growth,
) (info cas.Info, err error) {
	s.index.Tidy()
	draft, err := s.newDraft(growth)
	if err != nil {
		return cas.Info{}, err
	}
	defer draft.abandon() // does nothing once the draft is published
	info, err = cas.Check(ctx, draft, r, want, s.cfg.MaxContentBytes)
	if err != nil {
		return cas.Info{}, err
	}
	modified, err := draft.finish(info)
	if err != nil {
		return cas.Info{}, err
	}
	err = s.publish(info, modified, draft)
	if errors.Is(err, fs.ErrNotExist) { // another process emptied the folder; publish again, which creates it
		err = s.publish(info, modified, draft)
	}
	return info, err
}

// publish moves a complete draft into place. From here on others see the blob. It is durable when
// publish returns.
func (s *Store) publish(info cas.Info, modified time.Time, draft *draft) error {
	shard := filepath.Dir(s.folder.path(info))
	if err := s.makeShard(shard); err != nil {
		return err
	}
	e := &blobindex.Entry{
		Info:  info,
		Facts: blobindex.Facts{Stored: info.StoredDigest, Verified: true, Checked: time.Now(), Modified: modified},
	}
	e.Info.StoredDigest = digest.Digest{}
	err := s.index.Publish(e, func(path string) error { return s.disk.rename(draft.file.path, path) })
	if err != nil {
		s.shards.Delete(shard)
		return err
	}
	draft.reserved, draft.file = 0, nil
	if err := s.disk.syncDir(shard); err != nil {
		s.index.Discard(e)
		return err
	}
	s.stored.Set()
	return nil
}

// makeShard creates the folder of a blob, durably.
func (s *Store) makeShard(shard string) error {
	if _, durable := s.shards.Load(shard); durable {
		return nil
	}
	if err := s.disk.makeDirs(shard); err != nil {
		return err
	}
	// Sync even if the directory already existed: a crash may have interrupted its creator before
	// the sync.
	if err := errors.Join(s.disk.syncDir(s.folder.blobDir()), s.disk.syncDir(s.cfg.Dir)); err != nil {
		return err
	}
	s.shards.Store(shard, struct{}{})
	return nil
}

// draft is a blob being written: a temporary file, and the room reserved for it.
type draft struct {
	store    *Store
	file     *file // nil once it is published; cas.Draft closes it after its last reader
	growth   cas.Growth
	reserved int64
}

func (s *Store) newDraft(growth cas.Growth) (*draft, error) {
	const pattern = "put-*"
	f, err := s.disk.create(s.folder.tempDir(), pattern)
	if errors.Is(err, fs.ErrNotExist) { // another process emptied the folder
		if err = s.disk.makeDirs(s.folder.tempDir()); err == nil {
			f, err = s.disk.create(s.folder.tempDir(), pattern)
		}
	}
	if err != nil {
		return nil, err
	}
	growth.Begin(f)
	return &draft{store: s, file: f, growth: growth}, nil
}

// Write reserves room for p and writes it. When the disk is full it evicts and retries, until
// nothing is left to evict.
func (d *draft) Write(p []byte) (int, error) {
	if err := d.store.index.Reserve(int64(len(p))); err != nil {
		return 0, err
	}
	d.reserved += int64(len(p))
	written := 0
	for {
		n, err := d.file.Write(p[written:])
		written += n
		d.growth.Add(n)
		if err == nil {
			return written, nil
		}
		if !noSpace(err) || d.store.index.Shed(int64(len(p)-written)+shedBytes) == 0 {
			return written, err
		}
	}
}

// finish makes the bytes durable and verifies them on the disk, because they were verified only on
// their way to it. It returns the file's time, which the store has set, so that any later change
// shows.
func (d *draft) finish(info cas.Info) (modified time.Time, err error) {
	if err := d.store.disk.touch(d.file.path, time.Now()); err != nil {
		return time.Time{}, err
	}
	if err := d.file.sync(); err != nil {
		return time.Time{}, err
	}
	stat, err := d.file.stat()
	if err != nil {
		return time.Time{}, err
	}
	back := digest.NewVerifier(io.NewSectionReader(d.file, 0, stat.Size()), info.StoredDigest)
	if _, err := io.Copy(io.Discard, back); err != nil {
		if errors.Is(err, digest.ErrMismatch) { // an error of digest would blame the source
			err = fmt.Errorf("%w: bytes read back differ from those that were written", syscall.EIO)
		}
		return time.Time{}, err
	}
	return stat.ModTime(), nil
}

// abandon removes a draft that was not published.
func (d *draft) abandon() {
	if d.file != nil {
		d.store.index.DiscardReserved(d.file.path, d.reserved)
	}
}

// full wraps an error that means a full disk in cas.ErrFull.
func full(err error) error {
	if noSpace(err) {
		return fmt.Errorf("%w: %w", cas.ErrFull, err)
	}
	return err
}
