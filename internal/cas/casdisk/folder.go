// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package casdisk

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/leatdev/leat/internal/cas"
	"github.com/leatdev/leat/internal/digest"
)

func (s *Store) tempDir() string {
	return filepath.Join(s.cfg.Dir, "tmp")
}

func (s *Store) blobDir() string {
	return filepath.Join(s.cfg.Dir, "blobs")
}

// path is where a blob's file is: 256 folders keep each of them short.
func (s *Store) path(info cas.Info) string {
	name := info.Digest.Hex()
	return filepath.Join(s.blobDir(), name[:2], name+"."+strconv.FormatInt(info.ContentSize, 10))
}

// parseName reads what path wrote.
func parseName(name string) (d digest.Digest, contentSize int64, ok bool) {
	hexDigits, size, found := strings.Cut(name, ".")
	if !found {
		return digest.Digest{}, 0, false
	}
	d, err := digest.Parse("sha256:" + hexDigits)
	if err != nil {
		return digest.Digest{}, 0, false
	}
	contentSize, err = strconv.ParseInt(size, 10, 64)
	return d, contentSize, err == nil && contentSize >= 0 && strconv.FormatInt(contentSize, 10) == size
}

// sweep makes the folders and removes what was being written when an earlier process ended.
func (s *Store) sweep() error {
	if err := os.RemoveAll(s.tempDir()); err != nil {
		return err
	}
	return errors.Join(os.MkdirAll(s.tempDir(), 0o700), os.MkdirAll(s.blobDir(), 0o700))
}

// scan lists the blobs that earlier processes left, the last read one last.
func (s *Store) scan() error {
	var found []*entry
	err := filepath.WalkDir(s.blobDir(), func(path string, item fs.DirEntry, err error) error {
		if err != nil || item.IsDir() {
			return err
		}
		d, contentSize, ok := parseName(item.Name())
		if !ok || !item.Type().IsRegular() {
			s.cfg.Logger.LogAttrs(context.Background(), slog.LevelWarn, "foreign file in blob store",
				slog.String("path", path))
			return nil
		}
		stat, err := item.Info()
		if err != nil {
			return err
		}
		info := cas.Info{Digest: d, StoredSize: stat.Size(), ContentSize: contentSize}
		found = append(found, &entry{info: info, touched: stat.ModTime()})
		return nil
	})
	if err != nil {
		return err
	}
	slices.SortFunc(found, func(a, b *entry) int {
		return cmp.Or(a.touched.Compare(b.touched), a.info.Digest.Compare(b.info.Digest))
	})
	for _, e := range found {
		if twin := s.index.adopt(e); !twin.Digest.IsZero() {
			_ = os.Remove(s.path(twin)) // one of the two has a lying name; if it is the other, verifying finds out
		}
	}
	return nil
}

// verifyOnce reads a blob that an earlier process wrote. However many callers ask, it is read once; a caller that goes
// away does not stop it for the others.
func (s *Store) verifyOnce(ctx context.Context, info cas.Info) (cas.Info, error) {
	detached := context.WithoutCancel(ctx)
	done := s.verifying.DoChan(info.Digest.Hex(), func() (any, error) {
		return s.verify(detached, info)
	})
	select {
	case result := <-done:
		return result.Val.(cas.Info), result.Err //nolint:errcheck // verify returns nothing else
	case <-ctx.Done():
		return cas.Info{}, context.Cause(ctx)
	}
}

func (s *Store) verify(ctx context.Context, info cas.Info) (cas.Info, error) {
	file, err := s.openFile(ctx, info)
	if err != nil {
		return cas.Info{}, err
	}
	defer file.Close()
	got, err := cas.Check(ctx, io.Discard, file, info.Digest, s.cfg.MaxContentBytes)
	if err == nil && !sameFile(got, info) {
		err = fmt.Errorf("%w: content has %d bytes, want %d", cas.ErrCorrupt, got.ContentSize, info.ContentSize)
	}
	if err != nil {
		s.dropCorrupt(ctx, info, err)
		return cas.Info{}, cas.ErrNotFound
	}
	s.index.markVerified(got)
	return got, nil
}

// dropCorrupt removes a blob whose bytes are not what they were. A disk that cannot even remove them does not matter
// here: the blob is not listed any more, and the next process would find the damage again.
func (s *Store) dropCorrupt(ctx context.Context, info cas.Info, damage error) {
	_ = s.index.remove(info, func(info cas.Info) error {
		_ = s.unlink(info)
		return nil
	})
	s.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "damaged blob dropped",
		slog.String("digest", info.Digest.String()), slog.Any("error", damage))
	if s.cfg.Hooks.Corrupt != nil {
		s.cfg.Hooks.Corrupt(info.Digest, damage)
	}
}

// evict removes the file of a blob that has to make room. The index is locked.
func (s *Store) evict(info cas.Info) error {
	if err := s.unlink(info); err != nil {
		return fmt.Errorf("evict blob: %w", err)
	}
	if s.cfg.Hooks.Evicted != nil {
		s.cfg.Hooks.Evicted(info)
	}
	return nil
}

// unlink removes a blob's file, which others may go on reading if they have it open.
func (s *Store) unlink(info cas.Info) error {
	path := s.path(info)
	if err := s.fault(OpRemove, path); err != nil {
		return err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
