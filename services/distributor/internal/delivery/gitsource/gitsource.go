// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package gitsource is the distributor's way to gitcache: it pushes repository definitions there,
// asks what sources hold, downloads bundles, and follows the events.
package gitsource

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"connectrpc.com/connect"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	gitcachev1 "github.com/leatdev/leat/gen/go/leat/gitcache/v1"
	"github.com/leatdev/leat/gen/go/leat/gitcache/v1/gitcachev1connect"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/contract/digest"
	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/contract/source/sourcewire"
	"github.com/leatdev/leat/internal/kit/wake"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/services/distributor/internal/delivery/resolve"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalogwire"
)

// Params are a Source's collaborators and settings, all required.
type Params struct {
	Client gitcachev1connect.GitCacheServiceClient
	// Leave makes the next call go to another replica of gitcache, if there is one and no call is under way. A
	// connection goes to one replica, and that one may be cut off from Redis.
	Leave       func()
	Definitions catalog.Definitions
	Logger      *slog.Logger
	// ReconcileEvery is how often definitions are compared with the catalog, give or take a
	// quarter.
	ReconcileEvery time.Duration
}

// Source talks to gitcache. It is safe for concurrent use.
type Source struct {
	p Params
	// pushed receives a value when definitions may have changed.
	pushed wake.Signal
	// refused receives a value when the token of a call was refused, which may have been good when the stream of
	// events began.
	refused wake.Signal
	// refusal is kept by MonitorRepositories.
	refusal refusal
}

var _ resolve.Upstream = (*Source)(nil)

// New returns a Source.
func New(p Params) *Source {
	return &Source{p: p, pushed: wake.NewSignal(), refused: wake.NewSignal()}
}

// Resolve implements resolve.Upstream. gitcache is not told where the content is mounted.
func (s *Source) Resolve(ctx context.Context, source catalog.Source) (resolve.Answer, error) {
	res, err := s.p.Client.ResolveSnapshot(ctx, &gitcachev1.ResolveSnapshotRequest{Source: sourcewire.Message(source.Normal())})
	if err != nil {
		if rpcerr.ReasonOf(err) == errorsv1.Reason_REASON_NOT_FOUND {
			return resolve.Answer{}, s.unknown()
		}
		return resolve.Answer{}, failure(ctx, err)
	}
	snapshot, err := snapshotOf(res.GetSnapshot())
	return resolve.Answer{Snapshot: snapshot, FreshAt: catalogwire.TimeOf(res.GetFreshAt())}, err
}

// unknown hands over the definitions, because one has not arrived at gitcache yet, or was lost there, and returns the
// failure until it has.
func (s *Source) unknown() error {
	s.Push()
	return &resolve.Failure{Reason: reason.RepositoryNotReady, Message: "the repository is about to be fetched for the first time"}
}

// Refresh makes gitcache fetch the repository now, and waits for it. An upstream that fails is a
// *resolve.Failure; one with unsigned content does not fail.
func (s *Source) Refresh(ctx context.Context, repository string) error {
	res, err := s.p.Client.RefreshRepository(ctx, &gitcachev1.RefreshRepositoryRequest{Name: repository, Wait: true})
	if err != nil {
		if rpcerr.ReasonOf(err) == errorsv1.Reason_REASON_NOT_FOUND {
			return s.unknown()
		}
		return failure(ctx, err)
	}
	if p := catalogwire.ProblemOf(res.GetState().GetProblem()); p != nil && p.Reason != reason.UpstreamSignatureRejected {
		return &resolve.Failure{Reason: p.Reason, Message: p.Message}
	}
	return nil
}

// Deliveries returns the newest webhooks about a repository. Of one that gitcache does not know yet there are none.
func (s *Source) Deliveries(ctx context.Context, repository string) ([]*gitcachev1.WebhookDelivery, error) {
	res, err := s.p.Client.ListWebhookDeliveries(ctx, &gitcachev1.ListWebhookDeliveriesRequest{Name: repository})
	if rpcerr.ReasonOf(err) == errorsv1.Reason_REASON_NOT_FOUND {
		s.Push()
		return nil, nil
	}
	if err != nil {
		return nil, failure(ctx, err)
	}
	return res.GetDeliveries(), nil
}

// IsRefused reports whether gitcache has refused the tokens of this replica for a while, because the clocks
// differ or the keys do: no new content comes here.
func (s *Source) IsRefused() bool { return s.refusal.lasts() }

// Commits returns the newest commits that touch a source's folder, from the commit that it selects back to another one,
// or to the beginning.
func (s *Source) Commits(ctx context.Context, source catalog.Source, until string, limit int) ([]*gitcachev1.Commit, bool, error) {
	res, err := s.p.Client.ListCommits(ctx, &gitcachev1.ListCommitsRequest{
		Source: sourcewire.Message(source), Until: until, Page: &typev1.Page{Size: int32(limit)},
	})
	if err != nil {
		return nil, false, failure(ctx, err)
	}
	return res.GetCommits(), res.GetNextPageToken() != "", nil
}

// States returns the states of those repositories, as the owners of their mirrors see them now.
// Repositories without an owner are missing.
func (s *Source) States(ctx context.Context, repositories []string) (map[string]catalog.Mirror, error) {
	res, err := s.p.Client.GetRepositoryStates(ctx, &gitcachev1.GetRepositoryStatesRequest{Names: repositories})
	if err != nil {
		return nil, failure(ctx, err)
	}
	states := make(map[string]catalog.Mirror, len(res.GetStates()))
	for name, state := range res.GetStates() {
		states[name] = *mirrorOf(state)
	}
	return states, nil
}

// failure turns the error of a call into a *resolve.Failure. When the caller gave up, it is the
// context's error.
func failure(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	f := &resolve.Failure{Reason: reasonOf(err), Message: rpcerr.Message(err)}
	switch f.Reason { //nolint:exhaustive // all others have gitcache's own words
	case reason.DependencyUnavailable:
		f.Message = "the repository cache does not answer; Leat retries by itself"
	case reason.HubTokenRefused:
		f.Message = rpcerr.RefusedToken("the repository cache", "the distributor", err) + "; an operator of the hub has to repair this; Leat retries automatically"
	}
	f.RetryAfter, _ = rpcerr.RetryDelay(err)
	return f
}

// reasonOf returns the reason without its prefix. An error that has none of Leat's was made on the
// way. A refused token is this replica's own.
func reasonOf(err error) reason.Reason {
	if rpcerr.IsRefusedToken(err) {
		return reason.HubTokenRefused
	}
	if !rpcerr.HasReason(err) {
		onTheWay := []connect.Code{
			connect.CodeUnavailable, connect.CodeCanceled, connect.CodeDeadlineExceeded, connect.CodeUnknown, connect.CodeUnimplemented,
		}
		if slices.Contains(onTheWay, connect.CodeOf(err)) {
			return reason.DependencyUnavailable
		}
	}
	return reason.FromNumber(int32(rpcerr.ReasonOf(err)))
}

func snapshotOf(m *typev1.Snapshot) (catalog.Snapshot, error) {
	d, err := digest.Parse(m.GetDigest())
	if err != nil {
		return catalog.Snapshot{}, &resolve.Failure{Reason: reason.Internal, Message: "the repository cache answered without a valid digest"}
	}
	return catalog.Snapshot{
		Commit:      m.GetCommit(),
		Version:     m.GetVersion(),
		Digest:      d,
		ContentSize: m.GetContentSize(),
		StoredSize:  m.GetStoredSize(),
		Files:       int(m.GetFileCount()),
	}, nil
}
