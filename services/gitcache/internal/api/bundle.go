// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"errors"
	"fmt"

	"connectrpc.com/connect"

	gitcachev1 "github.com/leatdev/leat/gen/go/leat/gitcache/v1"
	"github.com/leatdev/leat/internal/bundle"
	"github.com/leatdev/leat/internal/cas"
	"github.com/leatdev/leat/services/gitcache/internal/snapshot"
)

const chunkSize = 256 << 10

type bundleStream = connect.ServerStream[gitcachev1.DownloadBundleResponse]

// DownloadBundle implements the call. A bundle that is stored here is sent even if another replica
// owns the repository: a digest names the same bytes everywhere.
func (s *Service) DownloadBundle(ctx context.Context, req *gitcachev1.DownloadBundleRequest, stream *bundleStream) error {
	r, err := s.repository(ctx, "repository", req.GetRepository())
	if err != nil {
		return err
	}
	d, folder, err := parseBundle(req, r.Definition())
	if err != nil {
		return err
	}
	blob, err := s.Snapshots.Stored(ctx, d)
	if err == nil {
		return send(blob, stream)
	}
	if !errors.Is(err, snapshot.ErrBundleNotFound) {
		return toError(err, req.GetRepository())
	}
	return s.relay(ctx, r, req, stream, func(ctx context.Context) error {
		folder.Repository, folder.Epoch = req.GetRepository(), r.Epoch()
		if folder.Commit != "" {
			if _, err := contentOf(r); err != nil {
				return err
			}
		}
		blob, err := s.Snapshots.Open(ctx, d, folder)
		if err != nil {
			return s.failed(ctx, r, err)
		}
		return send(blob, stream)
	})
}

// send sends a bundle and closes it.
func send(blob *cas.Blob, stream *bundleStream) (err error) {
	defer func() { err = errors.Join(err, blob.Close()) }()
	header := &gitcachev1.BundleHeader{
		Digest: blob.Digest.String(), StoredSize: blob.StoredSize, ContentSize: blob.ContentSize, MediaType: bundle.MediaType,
	}
	if err := stream.Send(&gitcachev1.DownloadBundleResponse{Frame: &gitcachev1.DownloadBundleResponse_Header{Header: header}}); err != nil {
		return fmt.Errorf("send header: %w", err)
	}
	return sendChunks(blob, func(chunk []byte) error {
		return stream.Send(&gitcachev1.DownloadBundleResponse{Frame: &gitcachev1.DownloadBundleResponse_Chunk{Chunk: chunk}})
	})
}
