// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package casdisk

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/leatdev/leat/internal/cas"
	"github.com/leatdev/leat/internal/digest"
)

func (s *Store) tempDir() string {
	return filepath.Join(s.cfg.Dir, "tmp")
}

func (s *Store) blobDir() string {
	return filepath.Join(s.cfg.Dir, "blobs")
}

// path returns where a blob's file is. 256 folders keep each folder small.
func (s *Store) path(info cas.Info) string {
	name := info.Digest.Hex()
	return filepath.Join(s.blobDir(), name[:2], name+"."+strconv.FormatInt(info.ContentSize, 10))
}

// parseName parses the name that path wrote.
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

// sweep creates the folders and removes what an earlier process had not finished writing.
func (s *Store) sweep() error {
	if err := s.disk.removeAll(s.tempDir()); err != nil {
		return err
	}
	return errors.Join(s.disk.makeDirs(s.tempDir()), s.disk.makeDirs(s.blobDir()))
}

// scan lists the blobs that earlier processes left, the most recently read one last.
func (s *Store) scan() error {
	shards, err := s.disk.list(s.blobDir())
	if err != nil {
		return err
	}
	var found []*entry
	for _, shard := range shards {
		path := filepath.Join(s.blobDir(), shard.Name())
		if !shard.IsDir() {
			s.warn("foreign file in blob store", path, nil)
			continue
		}
		entries, err := s.scanShard(path)
		if err := s.scanned(path, err); err != nil {
			return err
		}
		found = append(found, entries...)
	}
	slices.SortFunc(found, func(a, b *entry) int {
		return cmp.Or(a.modified.Compare(b.modified), a.info.Digest.Compare(b.info.Digest))
	})
	for _, e := range found {
		s.index.adopt(e)
	}
	return nil
}

func (s *Store) scanShard(shard string) ([]*entry, error) {
	items, err := s.disk.list(shard)
	if err != nil {
		return nil, err
	}
	var found []*entry
	for _, item := range items {
		path := filepath.Join(shard, item.Name())
		e, err := s.scanFile(path, item)
		if err := s.scanned(path, err); err != nil {
			return nil, err
		}
		if e != nil {
			found = append(found, e)
		}
	}
	return found, nil
}

// scanned removes a file that the disk can no longer read, because it would take room that is not
// counted. Other errors are returned.
func (s *Store) scanned(path string, err error) error {
	if !errors.Is(err, syscall.EIO) {
		return err
	}
	s.warn("damaged part of blob store dropped", path, err)
	return s.disk.removeAll(path)
}

// scanFile returns the file's entry, or nil for a file that is not the store's.
func (s *Store) scanFile(path string, item fs.DirEntry) (*entry, error) {
	d, contentSize, ok := parseName(item.Name())
	if !ok || !item.Type().IsRegular() || path != s.path(cas.Info{Digest: d, ContentSize: contentSize}) {
		s.warn("foreign file in blob store", path, nil)
		return nil, nil
	}
	stat, err := s.disk.stat(item, path)
	if err != nil {
		return nil, err
	}
	info := cas.Info{Digest: d, StoredSize: stat.Size(), ContentSize: contentSize}
	return &entry{info: info, facts: facts{modified: stat.ModTime()}}, nil
}

func (s *Store) warn(message, path string, err error) {
	attrs := []slog.Attr{slog.String("path", path)}
	if err != nil {
		attrs = append(attrs, slog.Any("error", err))
	}
	s.cfg.Logger.LogAttrs(context.Background(), slog.LevelWarn, message, attrs...)
}
