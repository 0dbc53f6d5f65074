// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package people

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"connectrpc.com/connect"
	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/types/known/timestamppb"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/services/distributor/internal/access/admission"
	"github.com/leatdev/leat/services/distributor/internal/api/wire"
	"github.com/leatdev/leat/services/distributor/internal/delivery/resolve"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalogwire"
)

// SyncService implements FleetService. An upstream that does not answer does not prevent it: the
// agent then reconciles the last known content, and the answer reports it.
func (s *Service) SyncService(ctx context.Context, req *fleetv1.SyncServiceRequest) (*fleetv1.SyncServiceResponse, error) {
	record, err := s.permitted(ctx, catalog.KindService, "name", req.GetName())
	if err != nil {
		return nil, err
	}
	var problem *typev1.Problem
	if service, ok := record.Object.(*catalog.Service); ok {
		problem = s.fetchNow(ctx, service.Spec.Sources)
	}
	request, err := s.d.Editor.RequestSync(ctx, record.Object.Key().Name, req.GetRegenerate())
	if err != nil {
		return nil, wire.Error(err)
	}
	s.follow(ctx)
	return &fleetv1.SyncServiceResponse{SyncRequest: request, Problem: problem}, nil
}

// SyncRepository implements FleetService. gitcache bounds the fetches of one upstream, and the pace the
// calls of one person, so that nobody uses up the others' share.
func (s *Service) SyncRepository(ctx context.Context, req *fleetv1.SyncRepositoryRequest) (*fleetv1.SyncRepositoryResponse, error) {
	record, err := s.permitted(ctx, catalog.KindRepository, "name", req.GetName())
	if err != nil {
		return nil, err
	}
	id, err := s.person(ctx)
	if err != nil {
		return nil, err
	}
	if wait, ok := s.fetches.Enter(id.Subject()); !ok {
		return nil, rpcerr.New(connect.CodeResourceExhausted, errorsv1.Reason_REASON_RATE_LIMITED,
			"you have requested too many fetches at once; try again in a few seconds", rpcerr.RetryAfter(wait))
	}
	waiting, cancel := context.WithTimeout(ctx, refreshTimeout)
	defer cancel()
	err = s.d.Mirrors.Refresh(waiting, record.Object.Key().Name)
	if ctx.Err() != nil {
		return nil, wire.Error(context.Cause(ctx))
	}
	return &fleetv1.SyncRepositoryResponse{Problem: fetchProblem(err)}, nil
}

// fetchNow has the repositories fetched and the sources resolved again, and returns why that was
// not possible.
func (s *Service) fetchNow(ctx context.Context, sources []catalog.Source) *typev1.Problem {
	ctx, cancel := context.WithTimeout(ctx, refreshTimeout)
	defer cancel()
	var fetches errgroup.Group
	asked := map[string]bool{}
	for _, source := range sources {
		if asked[source.Repository] {
			continue
		}
		asked[source.Repository] = true
		fetches.Go(func() error { return s.d.Mirrors.Refresh(ctx, source.Repository) })
	}
	err := fetches.Wait()
	if err == nil {
		err = s.d.Resolver.Sync(ctx, sources)
	}
	if err != nil {
		s.d.Logger.WarnContext(ctx, "sync goes on with what was last known", slog.Any("error", err))
	}
	return fetchProblem(err)
}

// fetchProblem returns the problem of a fetch that ended with err. A fetch without an end in time continues.
func fetchProblem(err error) *typev1.Problem {
	if err == nil {
		return nil
	}
	if f, ok := errors.AsType[*resolve.Failure](err); ok {
		return catalogwire.ProblemMessage(&catalog.Problem{Reason: f.Reason, Message: f.Message})
	}
	return catalogwire.ProblemMessage(&catalog.Problem{
		Reason: reason.DeadlineExceeded, Message: "the repositories were not fetched in time; Leat goes on by itself",
	})
}

// CreateJoinToken implements FleetService.
func (s *Service) CreateJoinToken(ctx context.Context, req *fleetv1.CreateJoinTokenRequest) (*fleetv1.CreateJoinTokenResponse, error) {
	cluster, err := s.permitted(ctx, catalog.KindCluster, "cluster", req.GetCluster())
	if err != nil {
		return nil, err
	}
	token := admission.NewJoinToken()
	expires := time.Now().Add(admission.JoinTokenLife)
	hash := admission.Hash(token)
	if err := s.d.Enrolments.CreateJoinToken(ctx, cluster.Object.Key().Name, hash, expires); err != nil {
		return nil, wire.Error(err)
	}
	s.d.JoinTokens.Created(catalog.JoinToken{Hash: hash})
	return &fleetv1.CreateJoinTokenResponse{
		JoinToken: token, ExpireTime: timestamppb.New(expires), HubKeys: s.d.Issuer.HubKeys(),
	}, nil
}

// RevokeCluster implements FleetService.
func (s *Service) RevokeCluster(ctx context.Context, req *fleetv1.RevokeClusterRequest) (*fleetv1.RevokeClusterResponse, error) {
	cluster, err := s.permitted(ctx, catalog.KindCluster, "cluster", req.GetCluster())
	if err != nil {
		return nil, err
	}
	if err := s.d.Enrolments.Revoke(ctx, cluster.Object.Key().Name); err != nil {
		return nil, wire.Error(err)
	}
	s.follow(ctx)
	return &fleetv1.RevokeClusterResponse{}, nil
}

// ReleaseCluster implements FleetService.
func (s *Service) ReleaseCluster(ctx context.Context, req *fleetv1.ReleaseClusterRequest) (*fleetv1.ReleaseClusterResponse, error) {
	cluster, err := s.permitted(ctx, catalog.KindCluster, "cluster", req.GetCluster())
	if err != nil {
		return nil, err
	}
	if err := s.d.Enrolments.Release(ctx, cluster.Object.Key().Name); err != nil {
		return nil, wire.Error(err)
	}
	s.follow(ctx)
	return &fleetv1.ReleaseClusterResponse{}, nil
}

// CreateAccessToken implements FleetService. An access token does not buy another one: it would
// never end.
func (s *Service) CreateAccessToken(ctx context.Context, req *fleetv1.CreateAccessTokenRequest) (*fleetv1.CreateAccessTokenResponse, error) {
	id, err := s.person(ctx)
	if err != nil {
		return nil, err
	}
	if _, ok := admission.APITokenOf(id.TokenID); !ok {
		return nil, wire.Denied("an access token is only given for an API token; of a session, leat.fleet.v1.SessionService gives one")
	}
	audience := cmp.Or(req.GetAudience(), identity.ServiceDistributor)
	if audience != identity.ServiceDistributor && audience != identity.ServiceTunnel {
		return nil, rpcerr.Field("audience", `must be "distributor" or "tunnel"`)
	}
	life := admission.AccessTokenLife
	if !id.Expires.IsZero() {
		life = min(life, time.Until(id.Expires))
	}
	token, expires, err := s.d.Issuer.Issue(id.Identity, audience, life)
	if err != nil {
		return nil, err
	}
	return &fleetv1.CreateAccessTokenResponse{AccessToken: token, ExpireTime: timestamppb.New(expires)}, nil
}
