// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/leatdev/leat/internal/contract/digest"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
	"github.com/leatdev/leat/services/gitcache/internal/pack"
)

// descriptions remembers the size and digest of each pack file, because computing a digest reads
// the whole file and packs never change. It may be used concurrently, and its zero value is ready.
type descriptions struct {
	known sync.Map // of mirror.File by path
}

// get describes a pack file, from memory where it can. Two callers at once may both read the file.
func (d *descriptions) get(ctx context.Context, path string) (mirror.File, error) {
	if known, ok := d.known.Load(path); ok {
		file, _ := known.(mirror.File)
		return file, nil
	}
	file, err := describe(ctx, path)
	if err == nil {
		d.known.Store(path, file)
	}
	return file, err
}

// forget drops the descriptions of all files below a folder that is removed.
func (d *descriptions) forget(dir string) {
	for path := range d.known.Range {
		if path, ok := path.(string); ok && strings.HasPrefix(path, dir+string(filepath.Separator)) {
			d.known.Delete(path)
		}
	}
}

// describe reads a whole file.
func describe(ctx context.Context, path string) (mirror.File, error) {
	f, err := os.Open(path)
	if err != nil {
		return mirror.File{}, err
	}
	defer f.Close()
	hash := digest.NewHasher()
	size, err := io.Copy(hash, pack.ContextReader{Context: ctx, Reader: f})
	if err != nil {
		return mirror.File{}, err
	}
	return mirror.File{Name: filepath.Base(path), Size: size, Digest: hash.Digest().String()}, nil
}
