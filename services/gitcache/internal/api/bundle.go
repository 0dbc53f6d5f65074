// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"errors"
	"fmt"
	"io"

	"connectrpc.com/connect"

	gitcachev1 "github.com/leatdev/leat/gen/go/leat/gitcache/v1"
	"github.com/leatdev/leat/internal/bundle"
	"github.com/leatdev/leat/internal/cas"
	"github.com/leatdev/leat/services/gitcache/internal/mirroring"
	"github.com/leatdev/leat/services/gitcache/internal/snapshot"
)

const chunkSize = 256 << 10

type bundleStream = connect.ServerStream[gitcachev1.DownloadBundleResponse]

// DownloadBundle implements the call. What is stored here is sent whoever owns the repository: a digest names the same
// bytes everywhere.
func (s *Service) DownloadBundle(ctx context.Context, req *gitcachev1.DownloadBundleRequest, stream *bundleStream) error {
	r, err := s.repository(ctx, "repository", req.GetRepository())
	if err != nil {
		return err
	}
	d, folder, err := parseBundle(req, r.Definition().UID)
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
	done, cold := s.relay(annotate(ctx, r), r, req, stream)
	if done {
		return cold
	}
	if _, err := r.Content(); err != nil {
		if done, err := s.relayHolder(ctx, r, req, stream); done {
			return err
		}
		if isCold(cold) {
			return cold
		}
	}
	folder.Repository, folder.Epoch = req.GetRepository(), r.Epoch()
	if folder.Commit != "" {
		if _, err := contentOf(r); err != nil {
			return err
		}
	}
	if blob, err = s.Snapshots.Open(ctx, d, folder); err != nil {
		return s.failed(ctx, r, err)
	}
	return send(blob, stream)
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
	buffer := make([]byte, chunkSize)
	for {
		n, err := io.ReadFull(blob, buffer)
		if n > 0 {
			frame := &gitcachev1.DownloadBundleResponse{Frame: &gitcachev1.DownloadBundleResponse_Chunk{Chunk: buffer[:n]}}
			if err := stream.Send(frame); err != nil {
				return fmt.Errorf("send chunk: %w", err)
			}
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read bundle: %w", err)
		}
	}
}

// relay passes on what the owner sends. done is false where there is no owner elsewhere, or it failed before its first
// frame in a way that this replica can make good.
func (s *Service) relay(ctx context.Context, r *mirroring.Repository, req *gitcachev1.DownloadBundleRequest, stream *bundleStream) (done bool, err error) {
	owner, url, err := s.elsewhere(ctx, r)
	if err != nil || owner == nil {
		return err != nil, err
	}
	asking, cancel := context.WithCancel(ctx)
	defer cancel()
	// Until its first frame the owner must stay the owner, as for any call; one that is sending may finish.
	watching, unwatch := whileOwner(ctx, r, url)
	defer unwatch()
	release := context.AfterFunc(watching, cancel)
	frames, err := owner.DownloadBundle(forwarded(asking, toOwner), req)
	if err != nil {
		return !isCold(err) && !s.unanswered(ctx, r, err), err
	}
	defer func() { _ = frames.Close() }()
	for frames.Receive() {
		if !done {
			release()
			unwatch()
		}
		done = true
		if err := stream.Send(frames.Msg()); err != nil {
			return true, fmt.Errorf("relay frame: %w", err)
		}
	}
	if err := frames.Err(); err != nil {
		return done || (!isCold(err) && !s.unanswered(ctx, r, err)), err
	}
	return true, nil
}
