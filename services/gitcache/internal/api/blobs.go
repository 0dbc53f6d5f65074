// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"errors"
	"fmt"
	"time"

	"connectrpc.com/connect"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	gitcachev1 "github.com/leatdev/leat/gen/go/leat/gitcache/v1"
	"github.com/leatdev/leat/internal/rpcerr"
	"github.com/leatdev/leat/services/gitcache/internal/artifact"
	"github.com/leatdev/leat/services/gitcache/internal/content"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
	"github.com/leatdev/leat/services/gitcache/internal/mirroring"
	"github.com/leatdev/leat/services/gitcache/internal/pack"
)

// FetchBlobs implements the call.
func (s *Replica) FetchBlobs(ctx context.Context, req *gitcachev1.FetchBlobsRequest) (*gitcachev1.FetchBlobsResponse, error) {
	r, err := s.repository(ctx, req.GetRepository(), req.GetUid())
	if err != nil {
		return nil, err
	}
	if len(req.GetIds()) > mirroring.MaxFill {
		return nil, rpcerr.Field("ids", fmt.Sprintf("It may have %d elements.", mirroring.MaxFill))
	}
	if len(req.GetRefs()) > mirroring.MaxPin {
		return nil, rpcerr.Field("refs", fmt.Sprintf("It may have %d elements.", mirroring.MaxPin))
	}
	for _, id := range req.GetIds() {
		if _, err := artifact.ParseID(id); err != nil && !pack.IsName(id) {
			return nil, rpcerr.Field("ids", "Every element must be an id of 40 or 64 lower-case hexadecimal digits, or that of an artifact.")
		}
	}
	if len(req.GetRefs()) > 0 {
		if err := r.LookUp(ctx, req.GetRefs()); err != nil {
			return nil, toError(err, req.GetRepository())
		}
	}
	if len(req.GetIds()) > 0 {
		if err := r.Fill(ctx, req.GetIds()); err != nil {
			return nil, toError(err, req.GetRepository())
		}
	}
	return &gitcachev1.FetchBlobsResponse{}, nil
}

// maxFills bounds how often one read has blobs fetched: once suffices, unless the mirror is given
// up in between.
const maxFills = 3

// filling uses the mirror of this replica, and fetches between one try and the next what a partial
// one lacks.
func (s *Service) filling(ctx context.Context, r *mirroring.Repository, use func() error) error {
	for fills := 0; ; fills++ {
		err := use()
		absent, ok := errors.AsType[*content.AbsentError](err)
		if !ok || fills == maxFills {
			return err
		}
		if err := r.FetchBlobs(ctx, absent.IDs); err != nil {
			return err
		}
	}
}

// upstreamError maps what keeps something from being fetched; nil: err is of another kind. what
// names it.
func upstreamError(err error, what string, of ...rpcerr.Option) error {
	if quiet, ok := errors.AsType[*mirror.QuietError](err); ok {
		return rpcerr.New(connect.CodeResourceExhausted, errorsv1.Reason_REASON_UPSTREAM_RATE_LIMITED,
			fmt.Sprintf("%s has to wait: %s asks to slow down.", what, quiet.Host),
			append(of, rpcerr.RetryAfter(max(time.Until(quiet.Until), retryReady)))...)
	}
	if upstream, ok := errors.AsType[*mirror.UpstreamError](err); ok {
		return rpcerr.New(codeOf(upstream.Reason), errorsv1.Reason(upstream.Reason),
			what+" cannot be fetched: "+upstream.Message,
			append(of, rpcerr.RetryAfter(max(upstream.RetryAfter, retryUpstream)))...)
	}
	return nil
}

// blobError maps what keeps the content of files, or an artifact, from being fetched; nil: err is of
// another kind.
func blobError(err error, in rpcerr.Option) error {
	if bad, ok := errors.AsType[*mirror.ArtifactError](err); ok {
		of := []rpcerr.Option{in}
		if bad.Path != "" {
			of = append(of, rpcerr.With("path", text(bad.Path)))
		}
		return rpcerr.New(codeOf(bad.Reason), errorsv1.Reason(bad.Reason), text(bad.Message), of...)
	}
	if unpinned, ok := errors.AsType[*mirror.UnpinnedError](err); ok {
		return rpcerr.New(connect.CodeUnavailable, errorsv1.Reason_REASON_REPOSITORY_NOT_READY,
			fmt.Sprintf("%s is still being looked up; call again.", text(unpinned.Names[0])), rpcerr.RetryAfter(retryReady), in)
	}
	if _, ok := errors.AsType[*content.AbsentError](err); ok {
		return rpcerr.New(connect.CodeUnavailable, errorsv1.Reason_REASON_REPOSITORY_NOT_READY,
			"The content of files is still being fetched; call again.", rpcerr.RetryAfter(retryReady), in)
	}
	return upstreamError(err, "The content", in)
}
