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

	"github.com/leatdev/leat/internal/digest"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// descriptions remembers the size and digest of each pack file, because computing a digest reads
// the whole file and packs never change. It may be used concurrently.
type descriptions struct {
	mu    sync.Mutex
	known map[string]mirror.File // by path
}

func newDescriptions() *descriptions { return &descriptions{known: map[string]mirror.File{}} }

// get describes a pack file, from memory where it can. Two callers at once may both read the file.
func (d *descriptions) get(ctx context.Context, path string) (mirror.File, error) {
	d.mu.Lock()
	known, ok := d.known[path]
	d.mu.Unlock()
	if ok {
		return known, nil
	}
	file, err := describe(ctx, path)
	if err != nil {
		return mirror.File{}, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.known[path] = file
	return file, nil
}

// forget drops the descriptions of all files below a folder that is removed.
func (d *descriptions) forget(dir string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for path := range d.known {
		if strings.HasPrefix(path, dir+string(filepath.Separator)) {
			delete(d.known, path)
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
	size, err := io.Copy(hash, contextReader{ctx, f})
	if err != nil {
		return mirror.File{}, err
	}
	return mirror.File{Name: filepath.Base(path), Size: size, Digest: hash.Digest().String()}, nil
}

// contextReader ends reading when the context does.
type contextReader struct {
	ctx context.Context //nolint:containedctx // lives as long as one call
	io.Reader
}

// Read implements io.Reader.
func (r contextReader) Read(p []byte) (int, error) {
	if r.ctx.Err() != nil {
		return 0, context.Cause(r.ctx)
	}
	return r.Reader.Read(p)
}
