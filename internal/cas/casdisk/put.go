// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package casdisk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/leatdev/leat/internal/cas"
	"github.com/leatdev/leat/internal/digest"
)

// shedBytes is how much more than what is missing right now a full disk makes us evict, so that the next few writes do
// not meet it again at once.
const shedBytes = 4 << 20

// Put implements [cas.Store]. A blob that an earlier process left and that has not been verified yet is written anew.
func (s *Store) Put(ctx context.Context, want digest.Digest, r io.Reader) (cas.Info, error) {
	if info, verified, ok := s.index.get(want); ok && verified {
		return info, nil
	}
	return s.Begin(want).Fill(ctx, r)
}

// Begin implements [cas.Store].
func (s *Store) Begin(want digest.Digest) *cas.Draft {
	return cas.NewDraft(func(ctx context.Context, r io.Reader, growth cas.Growth) (cas.Info, error) {
		info, err := s.put(ctx, want, r, growth)
		if err != nil {
			return cas.Info{}, fmt.Errorf("put blob %s: %w", want, err)
		}
		return info, nil
	})
}

func (s *Store) put(ctx context.Context, want digest.Digest, r io.Reader, growth cas.Growth) (info cas.Info, err error) {
	draft, err := s.newDraft(growth)
	if err != nil {
		return cas.Info{}, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, draft.abandon())
		}
	}()
	info, err = cas.Check(ctx, draft, r, want, s.cfg.MaxContentBytes)
	if err != nil {
		return cas.Info{}, err
	}
	if err := draft.sync(); err != nil {
		return cas.Info{}, err
	}
	return info, s.publish(info, draft)
}

// publish moves a complete draft to its place. From here on others see the blob; it is durable when publish returns.
func (s *Store) publish(info cas.Info, draft *draft) error {
	path := s.path(info)
	shard := filepath.Dir(path)
	if err := s.makeShard(shard); err != nil {
		return full(err)
	}
	now := time.Now()
	replaced, err := s.index.publish(&entry{info: info, verified: true, touched: now}, func() error {
		if err := s.fault(OpRename, path); err != nil {
			return err
		}
		return os.Rename(draft.file.Name(), path)
	})
	if err != nil {
		return full(err)
	}
	draft.published()
	if replaced.ContentSize != info.ContentSize && !replaced.Digest.IsZero() {
		_ = os.Remove(s.path(replaced)) // its name lied about the content's size; nothing lists it any more
	}
	if err := s.syncDir(shard); err != nil {
		return errors.Join(full(err), s.index.remove(info, s.unlink))
	}
	return nil
}

// makeShard makes the folder a blob goes to, durably.
func (s *Store) makeShard(shard string) error {
	err := os.Mkdir(shard, 0o700)
	if errors.Is(err, os.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return s.syncDir(filepath.Dir(shard))
}

func (s *Store) syncDir(path string) error {
	if err := s.fault(OpSyncDir, path); err != nil {
		return err
	}
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// draft is a blob being written: a temporary file, and the room reserved for it.
type draft struct {
	store    *Store
	file     *os.File // its readers' as well, who outlive it: cas.Draft closes it
	growth   cas.Growth
	reserved int64
}

func (s *Store) newDraft(growth cas.Growth) (*draft, error) {
	if err := s.fault(OpCreate, s.tempDir()); err != nil {
		return nil, full(err)
	}
	file, err := os.CreateTemp(s.tempDir(), "put-*")
	if err != nil {
		return nil, full(err)
	}
	growth.Begin(file)
	return &draft{store: s, file: file, growth: growth}, nil
}

// Write reserves room for p and writes it. When the disk is full it evicts and goes on, until nothing is left to evict.
func (d *draft) Write(p []byte) (int, error) {
	if err := d.store.index.reserve(int64(len(p))); err != nil {
		return 0, err
	}
	d.reserved += int64(len(p))
	written := 0
	for {
		n, err := d.writeOnce(p[written:])
		written += n
		if err == nil {
			return written, nil
		}
		if !noSpace(err) || !d.store.index.shed(int64(len(p)-written)+shedBytes) {
			return written, full(err)
		}
	}
}

func (d *draft) writeOnce(p []byte) (int, error) {
	if err := d.store.fault(OpWrite, d.file.Name()); err != nil {
		return 0, err
	}
	n, err := d.file.Write(p)
	d.growth.Add(n)
	return n, err
}

// sync makes the bytes durable.
func (d *draft) sync() error {
	if err := d.store.fault(OpSync, d.file.Name()); err != nil {
		return full(err)
	}
	return full(d.file.Sync())
}

// published hands the reservation over to the index: the blob is listed now, with as many bytes.
func (d *draft) published() {
	d.reserved = 0
	d.file = nil
}

// abandon removes whatever there is of the draft. After published it does nothing.
func (d *draft) abandon() error {
	if d.file == nil {
		return nil
	}
	d.store.index.release(d.reserved)
	return os.Remove(d.file.Name())
}

func noSpace(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// full adds cas.ErrFull to an error that says so.
func full(err error) error {
	if noSpace(err) {
		return fmt.Errorf("%w: %w", cas.ErrFull, err)
	}
	return err
}
