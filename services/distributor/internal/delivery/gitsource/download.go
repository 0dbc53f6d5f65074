// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package gitsource

import (
	"context"
	"io"

	"connectrpc.com/connect"

	gitcachev1 "github.com/leatdev/leat/gen/go/leat/gitcache/v1"
	"github.com/leatdev/leat/internal/contract/source/sourcewire"
	"github.com/leatdev/leat/services/distributor/internal/delivery/plan"
)

// Download returns the bytes of a bundle, which the caller verifies. Errors, of reads too, are
// *resolve.Failure or the context's.
func (s *Source) Download(ctx context.Context, bundle plan.Bundle) (io.ReadCloser, error) {
	ctx, cancel := context.WithCancel(ctx)
	stream, err := s.p.Client.DownloadBundle(ctx, request(bundle))
	if err != nil {
		cancel()
		return nil, failure(ctx, err)
	}
	failed := func(err error) error { return failure(ctx, err) }
	return &download{failed: failed, cancel: cancel, stream: stream}, nil
}

// request names a bundle and what it can be rebuilt from. Most are a plain folder, which every
// version of gitcache knows.
func request(bundle plan.Bundle) *gitcachev1.DownloadBundleRequest {
	req := &gitcachev1.DownloadBundleRequest{
		Repository: bundle.Source.Repository, Digest: bundle.Digest.String(), Commit: bundle.Commit,
	}
	if bundle.Source.Plain() {
		req.Path = bundle.Source.Folder()
	} else {
		req.Source = sourcewire.Message(bundle.Source)
	}
	return req
}

// download reads the chunks of a stream.
type download struct {
	// failed turns the stream's error into the caller's.
	failed func(error) error
	cancel context.CancelFunc
	stream *connect.ServerStreamForClient[gitcachev1.DownloadBundleResponse]
	rest   []byte
}

// Read implements io.Reader.
func (d *download) Read(p []byte) (int, error) {
	for len(d.rest) == 0 {
		if !d.stream.Receive() {
			if err := d.stream.Err(); err != nil {
				return 0, d.failed(err)
			}
			return 0, io.EOF
		}
		d.rest = d.stream.Msg().GetChunk()
	}
	n := copy(p, d.rest)
	d.rest = d.rest[n:]
	return n, nil
}

// Close implements io.Closer. It ends the call, whether or not everything was read.
func (d *download) Close() error {
	d.cancel()
	return d.stream.Close()
}
