// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package fleettest is a small hub for tests of leat: FleetService over real HTTP, with an
// in-memory catalog and an agent that applies everything immediately.
package fleettest

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/gen/go/leat/fleet/v1/fleetv1connect"
	"github.com/leatdev/leat/gen/go/leat/tunnel/v1/tunnelv1connect"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/document"
	"github.com/leatdev/leat/internal/fleetdoc"
	"github.com/leatdev/leat/internal/objectname"
	"github.com/leatdev/leat/internal/rpcerr"
	"github.com/leatdev/leat/internal/syncrequest"
	"github.com/leatdev/leat/internal/wake"
)

// Token is a token that the hub accepts. It accepts no other one that does not begin like it.
const Token = "leat_test"

// Commit is the commit that every service has applied.
const Commit = "0123456789abcdef0123456789abcdef01234567"

// Hub is a FleetService.
type Hub struct {
	fleetv1connect.UnimplementedFleetServiceHandler

	URL string

	server *httptest.Server

	mu      sync.Mutex
	tunnel  string                       // its URL; empty if there is none
	objects map[string]*fleetv1.Document // by kind/name
	changed wake.Broadcast               // notified at every change
	tokens  int                          // access tokens handed out

	apiTokens []*fleetv1.Token
	history   map[string][]*fleetv1.Revision
	plans     plans
	signIns   *signIns
}

// Start runs a hub until the test ends.
func Start(t testing.TB) *Hub {
	t.Helper()
	h := New()
	server := httptest.NewUnstartedServer(h.Handler())
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetHTTP1(true)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	h.URL, h.server = server.URL, server
	return h
}

// Disconnect cuts all connections, as a restart would.
func (h *Hub) Disconnect() { h.server.CloseClientConnections() }

// SetTunnel sets the tunnel's URL. Empty means that there is none.
func (h *Hub) SetTunnel(url string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tunnel = url
}

// New returns a hub that has not been started.
func New() *Hub {
	return &Hub{
		tunnel:  "https://tunnel.example.com",
		objects: map[string]*fleetv1.Document{},
		history: map[string][]*fleetv1.Revision{},
		signIns: newSignIns(),
		plans:   plans{services: map[string]*fleetv1.GetServicePlanResponse{}, bundles: map[string][]byte{}},
	}
}

// Handler serves the hub to callers with the token.
func (h *Hub) Handler() http.Handler {
	mux := http.NewServeMux()
	path, calls := fleetv1connect.NewFleetServiceHandler(h)
	mux.Handle(path, guarded(calls, []string{"Bearer " + Token, "Bearer " + sessionAccess}, "the token is not known"))
	path, calls = fleetv1connect.NewSessionServiceHandler(h.signIns)
	mux.Handle(path, calls)
	mux.Handle("/login", h.signIns.page())
	mux.Handle("/clusters/", guarded(http.HandlerFunc(tunnel), []string{accessToken}, "no access token"))
	path, calls = fleetv1connect.NewKeyServiceHandler(newKeys())
	mux.Handle(path, guarded(calls, []string{"Bearer " + Token}, "the token is not known"))
	path, calls = fleetv1connect.NewNotifierServiceHandler(notifiers{hub: h})
	mux.Handle(path, guarded(calls, []string{"Bearer " + Token, "Bearer " + sessionAccess}, "the token is not known"))
	path, calls = fleetv1connect.NewConfigSetServiceHandler(configSets{hub: h})
	mux.Handle(path, guarded(calls, []string{"Bearer " + Token, "Bearer " + sessionAccess}, "the token is not known"))
	path, calls = fleetv1connect.NewGlobalServiceServiceHandler(globals{hub: h})
	mux.Handle(path, guarded(calls, []string{"Bearer " + Token, "Bearer " + sessionAccess}, "the token is not known"))
	path, calls = fleetv1connect.NewRolloutServiceHandler(rollouts{hub: h})
	mux.Handle(path, guarded(calls, []string{"Bearer " + Token, "Bearer " + sessionAccess}, "the token is not known"))
	path, calls = fleetv1connect.NewFleetSourceServiceHandler(fleetSources{hub: h})
	mux.Handle(path, guarded(calls, []string{"Bearer " + Token, "Bearer " + sessionAccess}, "the token is not known"))
	path, calls = fleetv1connect.NewBootstrapServiceHandler(new(bootstraps))
	mux.Handle(path, guarded(calls, []string{"Bearer " + Token, "Bearer " + sessionAccess}, "the token is not known"))
	path, calls = tunnelv1connect.NewTunnelServiceHandler(sessions{})
	mux.Handle(path, guarded(calls, []string{accessToken}, "no access token"))
	return mux
}

// guarded passes on the requests that have an Authorization header with one of the prefixes.
func guarded(next http.Handler, authorizations []string, refusal string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		has := func(prefix string) bool { return strings.HasPrefix(r.Header.Get("Authorization"), prefix) }
		if !slices.ContainsFunc(authorizations, has) {
			err := rpcerr.New(connect.CodeUnauthenticated, errorsv1.Reason_REASON_TOKEN_INVALID, refusal)
			_ = connect.NewErrorWriter().Write(w, r, err)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// Put stores an object unchanged, including its status, and notifies watchers.
func (h *Hub) Put(object *fleetv1.Document) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.put(object)
}

// PutIfAbsent stores an object unless there is one of its kind and name.
func (h *Hub) PutIfAbsent(object *fleetv1.Document) {
	h.mu.Lock()
	defer h.mu.Unlock()
	kind, name := document.Identify(object)
	if _, ok := h.objects[strings.ToLower(kind)+"/"+name]; !ok {
		h.put(object)
	}
}

func (h *Hub) put(object *fleetv1.Document) {
	kind, name := document.Identify(object)
	h.objects[strings.ToLower(kind)+"/"+name] = proto.CloneOf(object)
	h.changed.Notify()
}

// PutHistory stores a service's revisions, the latest first.
func (h *Hub) PutHistory(service string, revisions ...*fleetv1.Revision) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.history[service] = revisions
}

// ListRevisions implements FleetService. It returns one revision a page.
func (h *Hub) ListRevisions(_ context.Context, request *fleetv1.ListRevisionsRequest) (*fleetv1.ListRevisionsResponse, error) {
	if _, err := h.get("service", request.GetService()); err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	revisions, next := paged(h.history[request.GetService()], request.GetPage())
	return &fleetv1.ListRevisionsResponse{Revisions: revisions, NextPageToken: next}, nil
}

// AccessTokens returns how many were issued.
func (h *Hub) AccessTokens() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.tokens
}

func (h *Hub) get(kind, name string) (*fleetv1.Document, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	key, err := h.keyLocked(kind, name)
	if err != nil {
		return nil, err
	}
	return proto.CloneOf(h.objects[key]), nil
}

// keyLocked returns the key of the object that a request names. A service may be named without its
// cluster if that leads to one.
func (h *Hub) keyLocked(kind, name string) (string, error) {
	key := kind + "/" + name
	if _, ok := h.objects[key]; ok {
		return key, nil
	}
	var found []string
	for other := range h.objects {
		if kind == "service" && strings.HasPrefix(other, key+"@") {
			found = append(found, other)
		}
	}
	switch len(found) {
	case 0:
		return "", rpcerr.NotFound(kind, name)
	case 1:
		return found[0], nil
	}
	slices.Sort(found)
	names := strings.ReplaceAll(strings.Join(found, ", "), "service/", "")
	return "", rpcerr.New(connect.CodeInvalidArgument, errorsv1.Reason_REASON_NAME_AMBIGUOUS,
		fmt.Sprintf("service %q runs in several clusters: %s; name one of them", name, names))
}

func (h *Hub) list(kind string) []*fleetv1.Document {
	h.mu.Lock()
	defer h.mu.Unlock()
	var found []*fleetv1.Document
	for _, key := range slices.Sorted(maps.Keys(h.objects)) {
		if strings.HasPrefix(key, kind) {
			found = append(found, proto.CloneOf(h.objects[key]))
		}
	}
	return found
}

func (h *Hub) remove(kind, name string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	key, err := h.keyLocked(kind, name)
	if err != nil {
		return err
	}
	if kind != "service" && h.used(kind, name) {
		return rpcerr.New(connect.CodeFailedPrecondition, errorsv1.Reason_REASON_IN_USE, kind+" "+name+" is named by a service")
	}
	delete(h.objects, key)
	h.changed.Notify()
	return nil
}

func (h *Hub) used(kind, name string) bool {
	for _, object := range h.objects {
		spec := object.GetService().GetSpec()
		for _, source := range spec.GetSources() {
			if kind == "repository" && source.GetRepository() == name {
				return true
			}
		}
		if kind == "cluster" && spec.GetCluster() == name {
			return true
		}
	}
	return false
}

// GetServerInfo implements FleetService.
func (h *Hub) GetServerInfo(context.Context, *fleetv1.GetServerInfoRequest) (*fleetv1.GetServerInfoResponse, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return &fleetv1.GetServerInfoResponse{Version: "v0", TunnelUrl: h.tunnel, Subject: "user:admin", Groups: []string{"leat:admins"}}, nil
}

// Apply implements FleetService. It refuses a repository without url.
func (h *Hub) Apply(_ context.Context, request *fleetv1.ApplyRequest) (*fleetv1.ApplyResponse, error) {
	for i, object := range request.GetDocuments() {
		if r := object.GetRepository(); r != nil && r.GetSpec().GetUrl() == "" {
			return nil, rpcerr.Field(fmt.Sprintf("documents[%d].spec.url", i), "is required")
		}
		if d := object.GetRepository().GetSpec().GetPollInterval(); d != nil && d.AsDuration() < 5*time.Second {
			return nil, rpcerr.Field(fmt.Sprintf("documents[%d].spec.poll_interval", i), "is "+d.AsDuration().String()+"; it must be between 5s and 24h0m0s")
		}
	}
	response := &fleetv1.ApplyResponse{}
	for _, object := range request.GetDocuments() {
		action := h.applyOne(object, request.GetDryRun())
		outcome := &fleetv1.ApplyOutcome{Action: action, Document: object}
		if object.GetService() != nil && action != fleetv1.ApplyAction_APPLY_ACTION_CREATED {
			outcome.Warnings = h.holds()
		}
		response.Outcomes = append(response.Outcomes, outcome)
	}
	return response, nil
}

// holds returns a warning for each rollout policy: the double's policies hold every service.
func (h *Hub) holds() (warnings []string) {
	for _, policy := range h.list("rolloutpolicy/") {
		_, name := document.Identify(policy)
		warnings = append(warnings, "held by rolloutpolicy "+name+" until its rollout admits it")
	}
	return warnings
}

func (h *Hub) applyOne(object *fleetv1.Document, dryRun bool) fleetv1.ApplyAction {
	h.mu.Lock()
	defer h.mu.Unlock()
	kind, name := document.Identify(object)
	action := fleetv1.ApplyAction_APPLY_ACTION_CREATED
	if _, ok := h.objects[strings.ToLower(kind)+"/"+name]; ok {
		action = fleetv1.ApplyAction_APPLY_ACTION_UNCHANGED
	}
	if !dryRun {
		if service := object.GetService(); service != nil {
			service.Status = Healthy()
		}
		h.put(object)
	}
	return action
}

// Healthy returns the status of a running service.
func Healthy() *fleetv1.ServiceStatus {
	status := &fleetv1.ServiceStatus{Phase: typev1.ServicePhase_SERVICE_PHASE_HEALTHY, Synced: true, ObservedGeneration: 1}
	status.Report = reportOf(status.GetPhase())
	return status
}

// CreateCluster implements FleetService.
func (h *Hub) CreateCluster(_ context.Context, request *fleetv1.CreateClusterRequest) (*fleetv1.CreateClusterResponse, error) {
	name := document.Reference(request.GetCluster().GetMetadata())
	if _, err := h.get("cluster", name); err == nil {
		return nil, rpcerr.New(connect.CodeAlreadyExists, errorsv1.Reason_REASON_ALREADY_EXISTS, fmt.Sprintf("cluster %q already exists; update it, or choose another name", name))
	}
	h.Put(fleetdoc.Of(request.GetCluster()))
	return &fleetv1.CreateClusterResponse{Cluster: request.GetCluster()}, nil
}

// CreateJoinToken implements FleetService.
func (h *Hub) CreateJoinToken(_ context.Context, request *fleetv1.CreateJoinTokenRequest) (*fleetv1.CreateJoinTokenResponse, error) {
	if _, err := h.get("cluster", request.GetCluster()); err != nil {
		return nil, err
	}
	return &fleetv1.CreateJoinTokenResponse{
		JoinToken: "join-" + request.GetCluster(), ExpireTime: timestamppb.New(time.Now().Add(24 * time.Hour)), HubKeys: []string{"hub-key"},
	}, nil
}

// ReleaseCluster implements FleetService.
func (h *Hub) ReleaseCluster(_ context.Context, request *fleetv1.ReleaseClusterRequest) (*fleetv1.ReleaseClusterResponse, error) {
	_, err := h.get("cluster", request.GetCluster())
	return &fleetv1.ReleaseClusterResponse{}, err
}

// RevokeCluster implements FleetService.
func (h *Hub) RevokeCluster(_ context.Context, request *fleetv1.RevokeClusterRequest) (*fleetv1.RevokeClusterResponse, error) {
	_, err := h.get("cluster", request.GetCluster())
	return &fleetv1.RevokeClusterResponse{}, err
}

// CreateAccessToken implements FleetService.
func (h *Hub) CreateAccessToken(context.Context, *fleetv1.CreateAccessTokenRequest) (*fleetv1.CreateAccessTokenResponse, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tokens++
	return &fleetv1.CreateAccessTokenResponse{
		AccessToken: fmt.Sprintf("jwt-%d", h.tokens), ExpireTime: timestamppb.New(time.Now().Add(time.Hour)),
	}, nil
}

// GetCluster implements FleetService.
func (h *Hub) GetCluster(_ context.Context, request *fleetv1.GetClusterRequest) (*fleetv1.GetClusterResponse, error) {
	object, err := h.get("cluster", request.GetName())
	return &fleetv1.GetClusterResponse{Cluster: object.GetCluster()}, err
}

// GetRepository implements FleetService.
func (h *Hub) GetRepository(_ context.Context, request *fleetv1.GetRepositoryRequest) (*fleetv1.GetRepositoryResponse, error) {
	object, err := h.get("repository", request.GetName())
	return &fleetv1.GetRepositoryResponse{Repository: object.GetRepository()}, err
}

// GetService implements FleetService.
func (h *Hub) GetService(_ context.Context, request *fleetv1.GetServiceRequest) (*fleetv1.GetServiceResponse, error) {
	object, err := h.get("service", request.GetName())
	return &fleetv1.GetServiceResponse{Service: object.GetService()}, err
}

// ListClusters implements FleetService, one object a page.
func (h *Hub) ListClusters(_ context.Context, request *fleetv1.ListClustersRequest) (*fleetv1.ListClustersResponse, error) {
	clusters, next := paged(listOf(h, "cluster", request.GetProject(), (*fleetv1.Document).GetCluster), request.GetPage())
	return &fleetv1.ListClustersResponse{Clusters: clusters, NextPageToken: next}, nil
}

// ListRepositories implements FleetService, one object a page.
func (h *Hub) ListRepositories(_ context.Context, request *fleetv1.ListRepositoriesRequest) (*fleetv1.ListRepositoriesResponse, error) {
	repositories, next := paged(listOf(h, "repository", request.GetProject(), (*fleetv1.Document).GetRepository), request.GetPage())
	return &fleetv1.ListRepositoriesResponse{Repositories: repositories, NextPageToken: next}, nil
}

// ListServices implements FleetService, one object a page.
func (h *Hub) ListServices(_ context.Context, request *fleetv1.ListServicesRequest) (*fleetv1.ListServicesResponse, error) {
	services, next := paged(listOf(h, "service", request.GetProject(), (*fleetv1.Document).GetService), request.GetPage())
	return &fleetv1.ListServicesResponse{Services: services, NextPageToken: next}, nil
}

// listOf returns all objects of a kind, or those of one project.
func listOf[T any](h *Hub, kind, project string, inner func(*fleetv1.Document) T) []T {
	var objects []T
	for _, object := range h.list(kind + "/") {
		if own := cmp.Or(document.Metadata(object).GetProject(), objectname.Default); project != "" && own != project {
			continue
		}
		objects = append(objects, inner(object))
	}
	return objects
}

// paged returns one of the items, the one whose place is the token, and the token of the next.
func paged[T any](items []T, page *typev1.Page) (one []T, next string) {
	at, _ := strconv.Atoi(page.GetToken()) // none: the first
	if at >= len(items) {
		return nil, ""
	}
	if at+1 < len(items) {
		next = strconv.Itoa(at + 1)
	}
	return items[at : at+1], next
}

// DeleteCluster implements FleetService.
func (h *Hub) DeleteCluster(_ context.Context, request *fleetv1.DeleteClusterRequest) (*fleetv1.DeleteClusterResponse, error) {
	return &fleetv1.DeleteClusterResponse{}, h.remove("cluster", request.GetName())
}

// DeleteRepository implements FleetService.
func (h *Hub) DeleteRepository(_ context.Context, request *fleetv1.DeleteRepositoryRequest) (*fleetv1.DeleteRepositoryResponse, error) {
	return &fleetv1.DeleteRepositoryResponse{}, h.remove("repository", request.GetName())
}

// DeleteService implements FleetService.
func (h *Hub) DeleteService(_ context.Context, request *fleetv1.DeleteServiceRequest) (*fleetv1.DeleteServiceResponse, error) {
	return &fleetv1.DeleteServiceResponse{}, h.remove("service", request.GetName())
}

// Contested is a label of services that change in the store whenever they are first read for an
// update.
const Contested = "contested"

// UpdateService implements FleetService.
func (h *Hub) UpdateService(_ context.Context, request *fleetv1.UpdateServiceRequest) (*fleetv1.UpdateServiceResponse, error) {
	metadata := request.GetService().GetMetadata()
	object, err := h.get("service", document.ServiceReference(request.GetService()))
	if err != nil {
		return nil, err
	}
	stored := object.GetService()
	if _, contested := stored.GetMetadata().GetLabels()[Contested]; contested {
		delete(stored.GetMetadata().GetLabels(), Contested)
		stored.Metadata.ResourceVersion++
		h.Put(object)
	}
	if metadata.GetResourceVersion() != stored.GetMetadata().GetResourceVersion() {
		return nil, rpcerr.New(connect.CodeAborted, errorsv1.Reason_REASON_VERSION_CONFLICT, "the service changed since it was read")
	}
	stored.Spec = request.GetService().GetSpec()
	stored.Metadata.ResourceVersion++
	h.Put(object)
	return &fleetv1.UpdateServiceResponse{Service: stored}, nil
}

// SyncService implements FleetService: it is carried out at once.
func (h *Hub) SyncService(_ context.Context, request *fleetv1.SyncServiceRequest) (*fleetv1.SyncServiceResponse, error) {
	object, err := h.get("service", request.GetName())
	if err != nil {
		return nil, err
	}
	made := syncrequest.New(request.GetRegenerate())
	status := object.GetService().GetStatus()
	if report := status.GetReport(); report != nil {
		report.ObservedSyncRequest = made
	}
	h.Put(object)
	var problem *typev1.Problem
	for _, source := range object.GetService().GetSpec().GetSources() {
		if repository, err := h.get("repository", source.GetRepository()); err == nil {
			problem = repository.GetRepository().GetStatus().GetProblem()
		}
	}
	return &fleetv1.SyncServiceResponse{SyncRequest: made, Problem: problem}, nil
}

// WatchFleet implements FleetService: everything, and everything again after each change.
func (h *Hub) WatchFleet(ctx context.Context, request *fleetv1.WatchFleetRequest, stream *connect.ServerStream[fleetv1.WatchFleetResponse]) error {
	for {
		changed := h.changed.Next()
		for _, object := range h.list("") {
			kind, name := document.Identify(object)
			if request.GetService() != "" && (kind != "Service" || name != request.GetService() && !strings.HasPrefix(name, request.GetService()+"@")) {
				continue
			}
			if err := stream.Send(&fleetv1.WatchFleetResponse{Document: object}); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		}
	}
}

func reportOf(phase typev1.ServicePhase) *distributorv1.ServiceReport {
	return &distributorv1.ServiceReport{
		Phase: phase, AppliedCommits: []string{Commit}, Counts: &typev1.ObjectCounts{Total: 4, Healthy: 4},
	}
}
