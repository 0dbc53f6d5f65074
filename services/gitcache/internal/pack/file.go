// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package pack

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
)

// TemporaryPrefix begins the names of files that are being written. A file that a crash left may be
// removed.
const TemporaryPrefix = "tmp_pack_"

// writeFile makes path hold what write wrote, durably; until then nothing is there. The name itself
// is durable once the folder has been synced.
func writeFile(path string, write func(io.Writer) error) error {
	f, err := os.CreateTemp(filepath.Dir(path), TemporaryPrefix)
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }() // gone already where the rename succeeded
	err = write(f)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
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

// meter counts the bytes that were read.
type meter struct {
	io.Reader
	n int64
}

func (m *meter) Read(p []byte) (int, error) {
	n, err := m.Reader.Read(p)
	m.n += int64(n)
	return n, err
}
