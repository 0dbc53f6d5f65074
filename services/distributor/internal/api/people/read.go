// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package people

import (
	"cmp"
	"context"
	"encoding/base64"
	"log/slog"
	"slices"

	"github.com/leatdev/leat/gen/go/leat/agent/v1/agentv1connect"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/accessrule"
	"github.com/leatdev/leat/internal/identity"
	"github.com/leatdev/leat/internal/rpcerr"
	"github.com/leatdev/leat/internal/syncpolicy"
	"github.com/leatdev/leat/services/distributor/internal/api/wire"
	"github.com/leatdev/leat/services/distributor/internal/catalog"
	"github.com/leatdev/leat/services/distributor/internal/fleet"
)

const (
	defaultPageSize = 500
	maxPageSize     = 1000
)

// GetServerInfo implements FleetService.
func (s *Service) GetServerInfo(ctx context.Context, _ *fleetv1.GetServerInfoRequest) (*fleetv1.GetServerInfoResponse, error) {
	id, err := s.person(ctx)
	if err != nil {
		return nil, err
	}
	return &fleetv1.GetServerInfoResponse{
		Version: s.d.Version, TunnelUrl: s.d.TunnelURL, Subject: id.Subject(), Groups: id.Groups,
	}, nil
}

// GetCluster implements FleetService.
func (s *Service) GetCluster(ctx context.Context, req *fleetv1.GetClusterRequest) (*fleetv1.GetClusterResponse, error) {
	record, err := s.getOwn(ctx, catalog.KindCluster, req.GetName())
	return &fleetv1.GetClusterResponse{Cluster: messageOf[*fleetv1.Cluster](record)}, err
}

// GetRepository implements FleetService.
func (s *Service) GetRepository(ctx context.Context, req *fleetv1.GetRepositoryRequest) (*fleetv1.GetRepositoryResponse, error) {
	record, err := s.get(ctx, catalog.KindRepository, req.GetName())
	if err != nil {
		return nil, err
	}
	records := []fleet.Record{record}
	s.updateMirrors(ctx, records)
	return &fleetv1.GetRepositoryResponse{Repository: messageOf[*fleetv1.Repository](records[0])}, nil
}

// GetService implements FleetService.
func (s *Service) GetService(ctx context.Context, req *fleetv1.GetServiceRequest) (*fleetv1.GetServiceResponse, error) {
	record, err := s.getOwn(ctx, catalog.KindService, req.GetName())
	return &fleetv1.GetServiceResponse{Service: messageOf[*fleetv1.Service](record)}, err
}

func (s *Service) get(ctx context.Context, kind catalog.Kind, name string) (fleet.Record, error) {
	if _, err := s.admin(ctx); err != nil {
		return fleet.Record{}, err
	}
	return s.find(ctx, kind, name)
}

// find returns the object that a request names.
func (s *Service) find(ctx context.Context, kind catalog.Kind, name string) (fleet.Record, error) {
	key, err := keyOf(kind, "name", name)
	if err != nil {
		return fleet.Record{}, wire.Error(err)
	}
	record, ok := fleet.LookTwice(ctx, s.d.View, func() (fleet.Record, bool) { return s.d.View.Get(key) })
	if !ok {
		return fleet.Record{}, wire.NotFound(key)
	}
	return record, nil
}

// ListClusters implements FleetService.
func (s *Service) ListClusters(ctx context.Context, req *fleetv1.ListClustersRequest) (*fleetv1.ListClustersResponse, error) {
	records, next, err := s.listOwn(ctx, fleet.Query{Kind: catalog.KindCluster, Project: req.GetProject()}, req.GetPage())
	return &fleetv1.ListClustersResponse{Clusters: wire.Each(records, messageOf[*fleetv1.Cluster]), NextPageToken: next}, err
}

// ListRepositories implements FleetService.
func (s *Service) ListRepositories(ctx context.Context, req *fleetv1.ListRepositoriesRequest) (*fleetv1.ListRepositoriesResponse, error) {
	records, next, err := s.list(ctx, fleet.Query{Kind: catalog.KindRepository, Project: req.GetProject()}, req.GetPage())
	s.updateMirrors(ctx, records)
	return &fleetv1.ListRepositoriesResponse{Repositories: wire.Each(records, messageOf[*fleetv1.Repository]), NextPageToken: next}, err
}

// updateMirrors puts the present states of mirrors into the records of repositories. The view only
// hears of changes, so that polls that find nothing cost nothing; when the last one was, and when
// the next one is due, is asked of the mirrors' owners here.
func (s *Service) updateMirrors(ctx context.Context, records []fleet.Record) {
	if len(records) == 0 {
		return
	}
	names := make([]string, len(records))
	for i, record := range records {
		names[i] = record.Object.Key().Name
	}
	ctx, cancel := context.WithTimeout(ctx, statesTimeout)
	defer cancel()
	states, err := s.d.Mirrors.States(ctx, names)
	if err != nil {
		s.d.Logger.DebugContext(ctx, "showing mirrors as last reported", slog.Any("error", err))
	}
	for i := range records {
		state, ok := states[records[i].Object.Key().Name]
		if known := records[i].Mirror; ok && (known == nil || known.Epoch <= state.Epoch) {
			records[i].Mirror = &state
		}
	}
}

// ListServices implements FleetService.
func (s *Service) ListServices(ctx context.Context, req *fleetv1.ListServicesRequest) (*fleetv1.ListServicesResponse, error) {
	if _, err := s.admin(ctx); err != nil {
		return nil, err
	}
	cluster, err := optionalPath("cluster", req.GetCluster())
	if err != nil {
		return nil, wire.Error(err)
	}
	records, next, err := s.list(ctx, fleet.Query{Kind: catalog.KindService, Cluster: cluster, Project: req.GetProject()}, req.GetPage())
	return &fleetv1.ListServicesResponse{Services: wire.Each(records, messageOf[*fleetv1.Service]), NextPageToken: next}, err
}

// concerns returns a function that reports whether a person who is not an administrator may see an
// object: clusters that they may reach, services of whose objects the cluster's agent tells them,
// bindings that name them, and themselves. Queries may use the function for all kinds but services,
// for which it calls the view.
func (s *Service) concerns(id identity.Identity) func(catalog.Object) bool {
	reachable := s.d.View.Reachable(id.Name, id.Groups)
	return func(object catalog.Object) bool {
		switch o := object.(type) {
		case *catalog.Cluster:
			return reachable(o)
		case *catalog.Service:
			return s.mayInspect(id, o.Spec.Cluster)
		case *catalog.User:
			return o.Name == id.Name
		case *catalog.AccessBinding:
			return means(o, id)
		}
		return false
	}
}

// mayInspect reports whether the tunnel lets the person ask the cluster's agent for the inventories
// of its services, which is what every role may do there.
func (s *Service) mayInspect(id identity.Identity, cluster string) bool {
	access, _ := s.d.View.Access(id.Name, id.Groups, cluster)
	return slices.ContainsFunc(access.Reasons, func(r fleet.AccessReason) bool {
		return r.Allows(accessrule.Request{Verb: "post", Path: agentv1connect.AgentServiceGetInventoryProcedure})
	})
}

// means reports whether the binding names the person or one of its groups.
func means(binding *catalog.AccessBinding, id identity.Identity) bool {
	return slices.Contains(binding.Spec.Users, id.Name) ||
		slices.ContainsFunc(binding.Spec.Groups, func(group string) bool { return slices.Contains(id.Groups, group) })
}

// getOwn returns an object that concerns the caller. Other callers learn nothing about it, not even
// that it exists.
func (s *Service) getOwn(ctx context.Context, kind catalog.Kind, name string) (fleet.Record, error) {
	id, err := s.person(ctx)
	if err != nil {
		return fleet.Record{}, err
	}
	if isAdmin(id) {
		return s.find(ctx, kind, name)
	}
	record, err := s.find(ctx, kind, name)
	if err != nil || !s.concerns(id)(record.Object) {
		return fleet.Record{}, errNotAdmin()
	}
	return onlyOwn(record, id), nil
}

// listOwn returns a page of the objects that concern the caller.
func (s *Service) listOwn(ctx context.Context, q fleet.Query, page *typev1.Page) ([]fleet.Record, string, error) {
	id, err := s.person(ctx)
	if err != nil {
		return nil, "", err
	}
	if isAdmin(id) {
		return s.page(q, page)
	}
	q.Keep = s.concerns(id)
	records, next, err := s.page(q, page)
	for i := range records {
		records[i] = onlyOwn(records[i], id)
	}
	return records, next, err
}

// onlyOwn removes what is not for the caller to see: who made and changed an object, of a binding
// other people, and of a service how it is made, its configuration included. Where it runs and how
// it fares remains.
func onlyOwn(record fleet.Record, id identity.Identity) fleet.Record {
	switch o := record.Object.(type) {
	case *catalog.Cluster:
		shown := *o
		shown.Metadata = withoutAuthors(o.Metadata)
		record.Object = &shown
	case *catalog.User:
		shown := *o
		shown.Metadata = withoutAuthors(o.Metadata)
		record.Object = &shown
	}
	if service, ok := record.Object.(*catalog.Service); ok {
		wanted := service.Spec.Wanted()
		record.Object = &catalog.Service{
			Metadata: withoutAuthors(service.Metadata),
			Spec: catalog.ServiceSpec{
				Cluster: service.Spec.Cluster,
				Options: &syncpolicy.Options{Namespace: wanted.Namespace, Paused: wanted.Paused},
			},
		}
	}
	binding, ok := record.Object.(*catalog.AccessBinding)
	if !ok {
		return record
	}
	shown := *binding
	shown.Metadata = withoutAuthors(binding.Metadata)
	shown.Spec.Users = slices.DeleteFunc(slices.Clone(binding.Spec.Users), func(user string) bool { return user != id.Name })
	shown.Spec.Groups = slices.DeleteFunc(slices.Clone(binding.Spec.Groups),
		func(group string) bool { return !slices.Contains(id.Groups, group) })
	record.Object = &shown
	return record
}

// withoutAuthors returns metadata without who made and changed the object, and why.
func withoutAuthors(m catalog.Metadata) catalog.Metadata {
	m.CreatedBy, m.UpdatedBy, m.Reason = "", "", ""
	return m
}

func (s *Service) list(ctx context.Context, q fleet.Query, page *typev1.Page) ([]fleet.Record, string, error) {
	if _, err := s.admin(ctx); err != nil {
		return nil, "", err
	}
	return s.page(q, page)
}

// page returns a page of the objects, and the token of the next page, which is the name of this
// one's last object.
func (s *Service) page(q fleet.Query, page *typev1.Page) ([]fleet.Record, string, error) {
	if err := optionalProject(q.Project); err != nil {
		return nil, "", wire.Error(err)
	}
	var err error
	if q.After, q.Limit, err = pageOf(page); err != nil {
		return nil, "", err
	}
	records, more := s.d.View.List(q)
	if !more {
		return records, "", nil
	}
	return records, pageToken(records[len(records)-1].Object.Key().Name), nil
}

// pageOf returns after which item a page begins, and how many items it holds.
func pageOf(page *typev1.Page) (after string, limit int, err error) {
	text, err := base64.RawURLEncoding.DecodeString(page.GetToken())
	if err != nil {
		return "", 0, rpcerr.Field("page.token", "is not a token that a listing returned")
	}
	if page.GetSize() < 0 {
		return "", 0, rpcerr.Field("page.size", "is negative")
	}
	return string(text), min(cmp.Or(int(page.GetSize()), defaultPageSize), maxPageSize), nil
}

// pageToken returns the token of the page after an item.
func pageToken(last string) string { return base64.RawURLEncoding.EncodeToString([]byte(last)) }
