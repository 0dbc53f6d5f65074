// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"errors"
	"fmt"

	"connectrpc.com/connect"

	gitcachev1 "github.com/leatdev/leat/gen/go/leat/gitcache/v1"
	"github.com/leatdev/leat/internal/contract/bundle"
	"github.com/leatdev/leat/internal/contract/cas"
	"github.com/leatdev/leat/services/gitcache/internal/api/wire"
	"github.com/leatdev/leat/services/gitcache/internal/forward"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
	"github.com/leatdev/leat/services/gitcache/internal/mirroring"
	"github.com/leatdev/leat/services/gitcache/internal/snapshot"
)

type bundleStream = connect.ServerStream[gitcachev1.DownloadBundleResponse]

// DownloadBundle implements the call. A bundle that is stored here is sent even if another replica
// owns the repository: a digest names the same bytes everywhere.
func (s *Service) DownloadBundle(
	ctx context.Context, req *gitcachev1.DownloadBundleRequest, stream *bundleStream,
) error {
	r, err := s.repository(ctx, "repository", req.GetRepository())
	if err != nil {
		return err
	}
	d, folder, err := wire.ParseBundle(req, r.Definition())
	if err != nil {
		return err
	}
	blob, err := s.Snapshots.Stored(ctx, d)
	if err == nil {
		return send(blob, stream)
	}
	if !errors.Is(err, snapshot.ErrBundleNotFound) {
		return wire.Error(err, req.GetRepository())
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

// relay has a bundle sent by the replica that [mirroring.Route] chooses: by local, where it is this
// one. Another replica's bytes are passed on, and have to end well once they have begun.
func (s *Service) relay(
	ctx context.Context, r *mirroring.Repository, req *gitcachev1.DownloadBundleRequest, stream *bundleStream,
	local func(context.Context) error,
) error {
	annotate(ctx, r)
	hasBegun := false
	_, err := mirroring.Route(ctx, r, mirroring.Call[struct{}]{
		Via:  forward.Via(ctx),
		Here: func(ctx context.Context) (struct{}, error) { return struct{}{}, local(ctx) },
		There: func(ctx context.Context, replica string, via mirror.Via, answering func()) (struct{}, error) {
			other, err := s.Dial(replica)
			if err != nil {
				return struct{}{}, err
			}
			frames, err := other.DownloadBundle(forward.Mark(ctx, via), req)
			if err != nil {
				return struct{}{}, err
			}
			defer func() { _ = frames.Close() }()
			for frames.Receive() {
				if !hasBegun {
					hasBegun = true
					answering()
				}
				if err := stream.Send(frames.Msg()); err != nil {
					return struct{}{}, fmt.Errorf("relay frame: %w", err)
				}
			}
			return struct{}{}, frames.Err()
		},
		Classify: func(err error) mirroring.Reply {
			if hasBegun {
				return mirroring.Answered
			}
			return classify(err)
		},
	})
	return routeError(err, r)
}

// send sends a bundle and closes it.
func send(blob *cas.Blob, stream *bundleStream) (err error) {
	defer func() { err = errors.Join(err, blob.Close()) }()
	header := &gitcachev1.BundleHeader{
		Digest: blob.Digest.String(), StoredSize: blob.StoredSize, ContentSize: blob.ContentSize, MediaType: bundle.MediaType,
	}
	first := &gitcachev1.DownloadBundleResponse{Frame: &gitcachev1.DownloadBundleResponse_Header{Header: header}}
	if err := stream.Send(first); err != nil {
		return fmt.Errorf("send header: %w", err)
	}
	return wire.SendChunks(blob, func(chunk []byte) error {
		return stream.Send(&gitcachev1.DownloadBundleResponse{Frame: &gitcachev1.DownloadBundleResponse_Chunk{Chunk: chunk}})
	})
}
