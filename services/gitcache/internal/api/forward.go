// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	"github.com/leatdev/leat/gen/go/leat/gitcache/v1/gitcachev1connect"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/services/gitcache/internal/api/wire"
	"github.com/leatdev/leat/services/gitcache/internal/forward"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
	"github.com/leatdev/leat/services/gitcache/internal/mirroring"
)

type client = gitcachev1connect.GitCacheServiceClient

// answer has a call answered by the replica that [mirroring.Route] chooses: by local, where it is
// this one. The request holds the name of the repository in the given field.
func answer[Req, Resp any](
	ctx context.Context, s *Service, field, name string, call func(client, context.Context, *Req) (*Resp, error), req *Req,
	local func(ctx context.Context, r *mirroring.Repository) (*Resp, error),
) (*Resp, error) {
	r, err := s.repository(ctx, field, name)
	if err != nil {
		return nil, err
	}
	annotate(ctx, r)
	resp, err := mirroring.Route(ctx, r, mirroring.Call[*Resp]{
		Via: forward.Via(ctx), Classify: classify,
		Here: func(ctx context.Context) (*Resp, error) { return local(ctx, r) },
		There: func(ctx context.Context, replica string, via mirror.Via, _ func()) (*Resp, error) {
			other, err := s.Dial(replica)
			if err != nil {
				return nil, err
			}
			return call(other, forward.Mark(ctx, via), req)
		},
	})
	return resp, routeError(err, r)
}

// routeError maps the error of a route that led nowhere; errors of answers are mapped already.
func routeError(err error, r *mirroring.Repository) error {
	if errors.Is(err, mirror.ErrOwnershipLost) {
		return wire.Error(err, r.Definition().Name)
	}
	return err
}

// classify returns what an error of a replica, be it this one, means for the choice of the next.
func classify(err error) mirroring.Reply {
	switch {
	case err == nil:
		return mirroring.Answered
	case forward.IsNoAnswer(err):
		return mirroring.NoAnswer
	}
	switch rpcerr.ReasonOf(err) {
	case errorsv1.Reason_REASON_REPOSITORY_NOT_READY:
		about := rpcerr.Metadata(err)
		if about[wire.MetadataSubmodule] == "" && about[wire.MetadataDependency] == "" { // not one that it needs
			return mirroring.Cold
		}
	case errorsv1.Reason_REASON_OWNER_UNAVAILABLE, errorsv1.Reason_REASON_NOT_FOUND,
		errorsv1.Reason_REASON_BUNDLE_NOT_FOUND:
		return mirroring.Absent
	default:
	}
	return mirroring.Answered
}

func annotate(ctx context.Context, r *mirroring.Repository) {
	trace.SpanFromContext(ctx).SetAttributes(
		attribute.String("leat.repository", r.Definition().Name), attribute.Int64("leat.epoch", int64(r.Epoch())))
}
