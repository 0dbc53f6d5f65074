// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"errors"
	"log/slog"

	gitcachev1 "github.com/leatdev/leat/gen/go/leat/gitcache/v1"
	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/services/gitcache/internal/api/wire"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
	"github.com/leatdev/leat/services/gitcache/internal/mirroring"
)

// PushCommit implements the call. Only the owner can push, so there is no answer without one.
func (s *Service) PushCommit(ctx context.Context, req *gitcachev1.PushCommitRequest) (*gitcachev1.PushCommitResponse, error) {
	push, err := wire.ParsePush(req)
	if err != nil {
		return nil, err
	}
	return answer(ctx, s, "repository", req.GetRepository(), client.PushCommit, req,
		func(ctx context.Context, r *mirroring.Repository) (*gitcachev1.PushCommitResponse, error) {
			logger := s.Logger.With(slog.String("leat.repository", req.GetRepository()), slog.String("branch", req.GetBranch()))
			result, err := s.Pusher.Push(ctx, r, push)
			if result.Pushed || isOutdated(err) {
				if _, failed := r.Refresh(ctx, false); failed != nil { // the next poll fetches it
					logger.DebugContext(ctx, "pushed branch is not fetched at once", slog.Any("error", failed))
				}
			}
			if result.Pushed {
				logger.InfoContext(ctx, "commit pushed", slog.String("commit", result.Commit))
			}
			if err != nil {
				return nil, wire.PushError(err, req.GetRepository())
			}
			return &gitcachev1.PushCommitResponse{Commit: result.Commit, PullRequestUrl: result.URL}, nil
		})
}

// isOutdated reports whether the upstream has a commit that the mirror may not have yet.
func isOutdated(err error) bool {
	failed, ok := errors.AsType[*mirror.UpstreamError](err)
	return ok && failed.Reason == reason.PushOutdated
}
