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

	"github.com/leatdev/leat/internal/contract/cas"
	"github.com/leatdev/leat/internal/contract/cas/casdisk/blobindex"
	"github.com/leatdev/leat/internal/contract/digest"
)

// folder is where the store keeps its files.
type folder struct {
	dir    string
	disk   *disk
	logger *slog.Logger
}

func (f *folder) tempDir() string {
	return filepath.Join(f.dir, "tmp")
}

func (f *folder) blobDir() string {
	return filepath.Join(f.dir, "blobs")
}

// path returns where a blob's file is. 256 folders keep each folder small.
func (f *folder) path(info cas.Info) string {
	name := info.Digest.Hex()
	return filepath.Join(f.blobDir(), name[:2], name+"."+strconv.FormatInt(info.ContentSize, 10))
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
func (f *folder) sweep() error {
	if err := f.disk.removeAll(f.tempDir()); err != nil {
		return err
	}
	return errors.Join(f.disk.makeDirs(f.tempDir()), f.disk.makeDirs(f.blobDir()))
}

// scan returns the blobs that earlier processes left, the most recently read one last.
func (f *folder) scan() ([]*blobindex.Entry, error) {
	shards, err := f.disk.list(f.blobDir())
	if err != nil {
		return nil, err
	}
	var found []*blobindex.Entry
	for _, shard := range shards {
		path := filepath.Join(f.blobDir(), shard.Name())
		if !shard.IsDir() {
			f.warn("foreign file in blob store", path, nil)
			continue
		}
		entries, err := f.scanShard(path)
		if err := f.scanned(path, err); err != nil {
			return nil, err
		}
		found = append(found, entries...)
	}
	slices.SortFunc(found, func(a, b *blobindex.Entry) int {
		return cmp.Or(a.Modified.Compare(b.Modified), a.Info.Digest.Compare(b.Info.Digest))
	})
	return found, nil
}

func (f *folder) scanShard(shard string) ([]*blobindex.Entry, error) {
	items, err := f.disk.list(shard)
	if err != nil {
		return nil, err
	}
	var found []*blobindex.Entry
	for _, item := range items {
		path := filepath.Join(shard, item.Name())
		e, err := f.scanFile(path, item)
		if err := f.scanned(path, err); err != nil {
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
func (f *folder) scanned(path string, err error) error {
	if !errors.Is(err, syscall.EIO) {
		return err
	}
	f.warn("damaged part of blob store dropped", path, err)
	return f.disk.removeAll(path)
}

// scanFile returns the file's entry, or nil for a file that is not the store's.
func (f *folder) scanFile(path string, item fs.DirEntry) (*blobindex.Entry, error) {
	d, contentSize, ok := parseName(item.Name())
	if !ok || !item.Type().IsRegular() || path != f.path(cas.Info{Digest: d, ContentSize: contentSize}) {
		f.warn("foreign file in blob store", path, nil)
		return nil, nil
	}
	stat, err := f.disk.stat(item, path)
	if err != nil {
		return nil, err
	}
	info := cas.Info{Digest: d, StoredSize: stat.Size(), ContentSize: contentSize}
	return &blobindex.Entry{Info: info, Facts: blobindex.Facts{Modified: stat.ModTime()}}, nil
}

func (f *folder) warn(message, path string, err error) {
	attrs := []slog.Attr{slog.String("path", path)}
	if err != nil {
		attrs = append(attrs, slog.Any("error", err))
	}
	f.logger.LogAttrs(context.Background(), slog.LevelWarn, message, attrs...)
}
