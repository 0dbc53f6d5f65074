// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package gogit

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/go-git/go-billy/v5/osfs"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/cache"
	"github.com/go-git/go-git/v5/storage/filesystem"

	"github.com/leatdev/leat/services/gitcache/internal/content"
)

const (
	largeCache = 8 << 20 // bytes of objects that go-git keeps
	largeBlob  = 4 << 20 // bytes from which on go-git streams a blob
)

// OpenLarge streams a blob of the bare repository in dir. go-git's storage does this well: it
// applies deltas to a stream, and so needs little memory for a blob of any size.
func (tools) OpenLarge(_ context.Context, dir, id string) (content.File, error) {
	storage := filesystem.NewStorageWithOptions(osfs.New(dir, osfs.WithBoundOS()), cache.NewObjectLRU(largeCache),
		filesystem.Options{LargeObjectThreshold: largeBlob, KeepDescriptors: true})
	blob, err := storage.EncodedObject(plumbing.BlobObject, plumbing.NewHash(id))
	if err != nil {
		return content.File{}, errors.Join(fmt.Errorf("open blob %s: %w", id, err), storage.Close())
	}
	body, err := blob.Reader()
	if err != nil {
		return content.File{}, errors.Join(fmt.Errorf("open blob %s: %w", id, err), storage.Close())
	}
	return content.File{Size: blob.Size(), ReadCloser: largeFile{Reader: body, body: body, storage: storage}}, nil
}

// largeFile closes the storage with the blob.
type largeFile struct {
	io.Reader
	body, storage io.Closer
}

// Close implements io.Closer.
func (f largeFile) Close() error { return errors.Join(f.body.Close(), f.storage.Close()) }
