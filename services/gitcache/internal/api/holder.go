// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"errors"
	"fmt"
	"time"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	gitcachev1 "github.com/leatdev/leat/gen/go/leat/gitcache/v1"
	"github.com/leatdev/leat/internal/rpcerr"
	"github.com/leatdev/leat/services/gitcache/internal/mirroring"
)

// holderTimeout is how long one replica that may hold a mirror is given: it may be frozen, or have to build a bundle.
const holderTimeout = 10 * time.Second

// errNoHolder means that no other replica could answer either.
var errNoHolder = errors.New("no other replica holds a mirror")

// askHolders lets a replica that holds a mirror answer, one hop away, although it does not own the repository. What comes
// says how old it is. errNoHolder: there is none, or the call came from another replica already.
func askHolders[Req, Resp any](
	ctx context.Context, s *Service, r *mirroring.Repository, call func(client, context.Context, *Req) (*Resp, error), req *Req,
) (*Resp, error) {
	if forwardedTo(ctx) != "" {
		return nil, errNoHolder
	}
	for _, url := range r.Others() {
		holder, err := s.peers.get(url)
		if err != nil {
			return nil, err
		}
		asking, cancel := context.WithTimeout(ctx, holderTimeout)
		resp, err := call(holder, forwarded(asking, toHolder), req)
		cancel()
		if err == nil || !isElsewhere(err) {
			return resp, err
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
	return nil, errNoHolder
}

// relayHolder is askHolders for a bundle. done is false where no replica has it.
func (s *Service) relayHolder(
	ctx context.Context, r *mirroring.Repository, req *gitcachev1.DownloadBundleRequest, stream *bundleStream,
) (done bool, err error) {
	if forwardedTo(ctx) != "" {
		return false, nil
	}
	for _, url := range r.Others() {
		if done, err = s.relayFrom(ctx, url, req, stream); done || ctx.Err() != nil {
			return true, err
		}
	}
	return false, nil
}

// relayFrom passes on what one holder sends; it has holderTimeout for its first frame.
func (s *Service) relayFrom(ctx context.Context, url string, req *gitcachev1.DownloadBundleRequest, stream *bundleStream) (done bool, err error) {
	holder, err := s.peers.get(url)
	if err != nil {
		return false, err
	}
	asking, cancel := context.WithCancel(ctx)
	defer cancel()
	patience := time.AfterFunc(holderTimeout, cancel)
	defer patience.Stop()
	frames, err := holder.DownloadBundle(forwarded(asking, toHolder), req)
	if err != nil {
		return !isElsewhere(err), err
	}
	defer func() { _ = frames.Close() }()
	for frames.Receive() {
		patience.Stop()
		done = true
		if err := stream.Send(frames.Msg()); err != nil {
			return true, fmt.Errorf("relay frame: %w", err)
		}
	}
	if err := frames.Err(); err != nil {
		return done || !isElsewhere(err), err
	}
	return true, nil
}

// isCold tells that a replica has no mirror yet of the repository itself, as opposed to one of its submodules.
func isCold(err error) bool {
	return err != nil && rpcerr.ReasonOf(err) == errorsv1.Reason_REASON_REPOSITORY_NOT_READY && rpcerr.Metadata(err)[metadataSubmodule] == ""
}

// isElsewhere tells that another replica may know better than the one that was asked.
func isElsewhere(err error) bool {
	switch rpcerr.ReasonOf(err) {
	case errorsv1.Reason_REASON_OWNER_UNAVAILABLE, errorsv1.Reason_REASON_NOT_FOUND, errorsv1.Reason_REASON_BUNDLE_NOT_FOUND:
		return true
	default:
		return isCold(err) || isNoAnswer(err)
	}
}
