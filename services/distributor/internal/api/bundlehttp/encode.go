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
	"github.com/leatdev/leat/internal/contract/cas"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/services/distributor/internal/access/admission"
)

const (
	// encoders is how many bundles are encoded at once, each with about 17 MiB of memory and one processor. Agents take
	// the stored bytes, so they need none.
	encoders = 4
	// encodersOfCluster is how many of them one cluster may hold or wait for, so that a compromised agent, which can read
	// slowly or ask for a range far behind, leaves the others theirs.
	encodersOfCluster = 1
	// encoderWait is how long a request waits for an encoder.
	encoderWait = 10 * time.Second
	// gzipLevel is the level of most servers.
	gzipLevel = 6
)

// encoder bounds how many bundles are encoded at once, in all and for a cluster. It is safe for concurrent use.
type encoder struct {
	slots    *semaphore.Weighted
	clusters *admission.Seats
}

func newEncoder() *encoder {
	return &encoder{slots: semaphore.NewWeighted(encoders), clusters: admission.NewSeats(encodersOfCluster)}
}

// acquire waits until another bundle may be encoded for the cluster. The caller calls done.
func (e *encoder) acquire(ctx context.Context, cluster string) (done func(), err error) {
	leave, ok := e.clusters.Take(cluster)
	if !ok {
		return nil, rpcerr.New(connect.CodeUnavailable, errorsv1.Reason_REASON_RATE_LIMITED,
			"this replica encodes another bundle for the cluster; ask again, or accept zstd, in which bundles are stored",
			rpcerr.RetryAfter(encoderWait))
	}
	waiting, cancel := context.WithTimeout(ctx, encoderWait)
	defer cancel()
	if e.slots.Acquire(waiting, 1) == nil {
		return func() {
			e.slots.Release(1)
			leave()
		}, nil
	}
	leave()
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	return nil, rpcerr.New(connect.CodeUnavailable, errorsv1.Reason_REASON_RATE_LIMITED,
		"this replica encodes other bundles now; ask again, or accept zstd, in which bundles are stored", rpcerr.RetryAfter(encoderWait))
}

// compress writes the content of a blob as gzip. It ends the stream only if the content matches the
// blob's digest.
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
