// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package pack

import (
	"context"
	"io"
)

// TemporaryPrefix begins the names of files that are being written. A file that a crash left may be
// removed.
const TemporaryPrefix = "tmp_pack_"

// ContextReader ends reading when the context does.
type ContextReader struct {
	Context context.Context //nolint:containedctx // lives as long as one call
	io.Reader
}

// Read implements io.Reader.
func (r ContextReader) Read(p []byte) (int, error) {
	if r.Context.Err() != nil {
		return 0, context.Cause(r.Context)
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
