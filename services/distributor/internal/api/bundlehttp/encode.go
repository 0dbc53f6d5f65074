// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package bundlehttp

import (
	"context"
	"io"
	"time"

	"connectrpc.com/connect"
	"github.com/klauspost/compress/gzip"
	"golang.org/x/sync/semaphore"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	"github.com/leatdev/leat/internal/cas"
	"github.com/leatdev/leat/internal/rpcerr"
)

const (
	// encoders is how many bundles are encoded at once, each with about 17 MiB of memory. Agents take the stored bytes,
	// so they need none.
	encoders = 4
	// encoderWait is how long a request waits for one of them.
	encoderWait = 10 * time.Second
	// gzipLevel is what most servers compress with.
	gzipLevel = 6
)

// encoder bounds how many bundles are encoded at once. It is safe for concurrent use.
type encoder struct{ slots *semaphore.Weighted }

func newEncoder() *encoder { return &encoder{slots: semaphore.NewWeighted(encoders)} }

// acquire waits until another bundle may be encoded. The caller calls done.
func (e *encoder) acquire(ctx context.Context) (done func(), err error) {
	waiting, cancel := context.WithTimeout(ctx, encoderWait)
	defer cancel()
	if e.slots.Acquire(waiting, 1) == nil {
		return func() { e.slots.Release(1) }, nil
	}
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	return nil, rpcerr.New(connect.CodeUnavailable, errorsv1.Reason_REASON_RATE_LIMITED,
		"this replica encodes other bundles now; ask again, or accept zstd, in which bundles are stored", rpcerr.RetryAfter(encoderWait))
}

// compress writes the content of a blob as gzip. It ends the stream only if the content is what the blob's digest says.
func compress(w io.Writer, blob *cas.Blob) error {
	content := &tarFile{blob: blob}
	defer func() { _ = content.Close() }()
	z, err := gzip.NewWriterLevel(w, gzipLevel)
	if err != nil {
		return err
	}
	if _, err := io.Copy(z, content); err != nil {
		return err
	}
	return z.Close()
}
