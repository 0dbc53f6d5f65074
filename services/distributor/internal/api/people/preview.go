// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package people

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/internal/contract/source/sourcewire"
	"github.com/leatdev/leat/internal/kit/fielderr"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/services/distributor/internal/api/wire"
	"github.com/leatdev/leat/services/distributor/internal/delivery/plan"
	"github.com/leatdev/leat/services/distributor/internal/delivery/resolve"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// previewTimeout bounds a preview, the fetch of what was just pushed included.
const previewTimeout = 30 * time.Second

// PreviewService implements FleetService. The mirror answers about the content of the sources, and
// refuses unsigned content where signatures are demanded, as it does for plans.
func (s *Service) PreviewService(ctx context.Context, req *fleetv1.PreviewServiceRequest) (*fleetv1.PreviewServiceResponse, error) {
	record, err := s.permitted(ctx, catalog.KindService, "name", req.GetName())
	if err != nil {
		return nil, err
	}
	stored, ok := record.Object.(*catalog.Service)
	if !ok {
		return nil, wire.NotFound(record.Object.Key())
	}
	cluster, ok := s.d.View.Catalog.Cluster(stored.Spec.Cluster)
	if !ok {
		return nil, wire.NotFound(catalog.Key{Kind: catalog.KindCluster, Name: stored.Spec.Cluster})
	}
	if problem := s.d.View.Records.Withheld(stored); problem != nil {
		return nil, rpcerr.New(connect.CodeFailedPrecondition, errorsv1.Reason(problem.Reason), problem.Message)
	}
	named, err := objectname.Parse("repository", req.GetRepository(), objectname.Project(stored.Name))
	if err != nil {
		return nil, wire.Error(err)
	}
	repository, err := repositoryFor(stored, named)
	if err != nil {
		return nil, wire.Error(err)
	}
	service, err := at(stored, repository, sourcewire.RefOf(req.GetRef()))
	if err != nil {
		return nil, wire.Error(err)
	}
	ctx, cancel := context.WithTimeout(ctx, previewTimeout)
	defer cancel()
	s.fetchRef(ctx, repository)
	entry, err := s.preview(ctx, service)
	if err != nil {
		return nil, err
	}
	expires, err := s.grant(ctx, cluster.UID, entry)
	if err != nil {
		return nil, wire.Error(err)
	}
	return &fleetv1.PreviewServiceResponse{
		Cluster: objectname.Display(cluster.Name), Service: wire.EntryMessage(&entry), ExpireTime: timestamppb.New(expires),
	}, nil
}

// repositoryFor returns the repository that a ref is one of.
func repositoryFor(service *catalog.Service, named string) (string, error) {
	first := service.Spec.Sources[0].Repository
	isNamed := func(s catalog.Source) bool { return s.Repository == named }
	isOther := func(s catalog.Source) bool { return s.Repository != first }
	switch {
	case named == "" && !slices.ContainsFunc(service.Spec.Sources, isOther):
		return first, nil
	case named == "":
		return "", &fielderr.Error{Path: "repository", Message: "is required: the service has sources in several repositories"}
	case !slices.ContainsFunc(service.Spec.Sources, isNamed):
		return "", &fielderr.Error{Path: "repository", Message: fmt.Sprintf("the service has no repository %q", objectname.Format(named, objectname.Project(service.Name)))}
	}
	return named, nil
}

// at returns the service with the ref in the place of its own, for the sources in the repository.
func at(stored *catalog.Service, repository string, ref catalog.Ref) (*catalog.Service, error) {
	if ref.Kind == catalog.RefHead {
		return nil, &fielderr.Error{Path: "ref", Message: "is required: a branch, a tag or a commit"}
	}
	next := *stored
	next.Spec.Sources = slices.Clone(stored.Spec.Sources)
	for i := range next.Spec.Sources {
		if next.Spec.Sources[i].Repository == repository {
			next.Spec.Sources[i].Ref = ref
		}
	}
	return &next, next.Validate()
}

// preview resolves the sources, and returns what the plan would hold.
func (s *Service) preview(ctx context.Context, service *catalog.Service) (plan.Entry, error) {
	input := plan.Input{Service: service, Limits: s.d.View.Catalog.AgentLimits(service.Name)}
	for _, source := range service.Spec.Sources {
		answer, err := s.d.Mirrors.Resolve(ctx, source.Normal())
		if err != nil {
			return plan.Entry{}, unresolved(source, err)
		}
		input.Snapshots = append(input.Snapshots, &answer.Snapshot)
	}
	return input.Entry(), nil
}

// fetchRef makes the hub fetch the repository, since the requested commit may have been pushed just
// now. Should that fail, the mirror answers with what it has, and the answer tells the commit.
func (s *Service) fetchRef(ctx context.Context, repository string) {
	if err := s.d.Mirrors.Refresh(ctx, repository); err != nil {
		s.d.Logger.WarnContext(ctx, "preview goes on with what was last fetched", slog.Any("error", err))
	}
}

// grant lets the cluster's agent read the entry's bundles, and returns until when. This replica
// knows of it when it returns; the others find out when they are asked.
func (s *Service) grant(ctx context.Context, clusterUID string, entry plan.Entry) (time.Time, error) {
	expires := catalog.Now().Add(catalog.GrantLife)
	grants := make([]catalog.Grant, len(entry.Bundles))
	for i, b := range entry.Bundles {
		grants[i] = catalog.Grant{
			ClusterUID: clusterUID, Digest: b.Digest, Source: b.Source, Commit: b.Commit, Subpath: b.Subpath, ExpiresAt: expires,
		}
	}
	if err := s.d.Grants.Grant(ctx, grants); err != nil {
		return time.Time{}, err
	}
	s.d.View.Look(ctx)
	return expires, nil
}

// unresolved reports why a source has nothing to show.
func unresolved(source catalog.Source, err error) error {
	f, ok := errors.AsType[*resolve.Failure](err)
	if !ok {
		return rpcerr.New(connect.CodeDeadlineExceeded, errorsv1.Reason_REASON_DEADLINE_EXCEEDED,
			fmt.Sprintf("repository %q did not answer in time", objectname.Display(source.Repository)))
	}
	options := []rpcerr.Option{rpcerr.With("repository", objectname.Display(source.Repository))}
	code := connect.CodeFailedPrecondition
	switch reason := errorsv1.Reason(f.Reason); reason { //nolint:exhaustive // the rest is the precondition's
	case errorsv1.Reason_REASON_REF_NOT_FOUND, errorsv1.Reason_REASON_PATH_NOT_FOUND, errorsv1.Reason_REASON_REPOSITORY_NOT_FOUND:
		code = connect.CodeNotFound
	case errorsv1.Reason_REASON_REPOSITORY_NOT_READY, errorsv1.Reason_REASON_DEPENDENCY_UNAVAILABLE, errorsv1.Reason_REASON_UPSTREAM_UNREACHABLE,
		errorsv1.Reason_REASON_OWNER_UNAVAILABLE, errorsv1.Reason_REASON_SHUTTING_DOWN, errorsv1.Reason_REASON_HUB_TOKEN_REFUSED:
		code = connect.CodeUnavailable
		options = append(options, rpcerr.RetryAfter(cmp.Or(f.RetryAfter, wire.StoreRetry)))
	}
	return rpcerr.New(code, errorsv1.Reason(f.Reason), f.Message, options...)
}
