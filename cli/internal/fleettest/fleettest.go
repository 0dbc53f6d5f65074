// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package fleettest is a small hub for tests of leat: FleetService over real HTTP, with an
// in-memory catalog and an agent that applies everything immediately.
package fleettest

import (
	"context"
	"fmt"
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
	gitcachev1 "github.com/leatdev/leat/gen/go/leat/gitcache/v1"
	"github.com/leatdev/leat/gen/go/leat/tunnel/v1/tunnelv1connect"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/contract/document"
	"github.com/leatdev/leat/internal/contract/syncrequest"
	"github.com/leatdev/leat/internal/kit/wake"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
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
	path, calls = fleetv1connect.NewGlobalServiceServiceHandler(globals{hub: h})
	mux.Handle(path, guarded(calls, []string{"Bearer " + Token, "Bearer " + sessionAccess}, "the token is not known"))
	path, calls = fleetv1connect.NewRolloutServiceHandler(rollouts{hub: h})
	mux.Handle(path, guarded(calls, []string{"Bearer " + Token, "Bearer " + sessionAccess}, "the token is not known"))
	path, calls = fleetv1connect.NewFleetSourceServiceHandler(fleetSources{hub: h})
	mux.Handle(path, guarded(calls, []string{"Bearer " + Token, "Bearer " + sessionAccess}, "the token is not known"))
	path, calls = fleetv1connect.NewImagePolicyServiceHandler(imagePolicies{hub: h})
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

// ListServiceCommits implements FleetService. Each commit of the history has the same author.
func (h *Hub) ListServiceCommits(_ context.Context, request *fleetv1.ListServiceCommitsRequest) (*fleetv1.ListServiceCommitsResponse, error) {
	if _, err := h.get("service", request.GetService()); err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	res := &fleetv1.ListServiceCommitsResponse{}
	for _, revision := range h.history[request.GetService()] {
		for _, commit := range revision.GetCommits() {
			if request.GetCommit() == "" || request.GetCommit() == commit {
				res.Commits = append(res.Commits, &fleetv1.ServiceCommit{
					Repository: "shop", Id: commit, AuthorName: "Ada", CommitTime: revision.GetPlannedAt(), Subject: "Scale the shop",
				})
				return res, nil
			}
		}
	}
	return nil, rpcerr.Field("commit", "None of the service's sources has it.")
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

// GetServerInfo implements FleetService.
func (h *Hub) GetServerInfo(context.Context, *fleetv1.GetServerInfoRequest) (*fleetv1.GetServerInfoResponse, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return &fleetv1.GetServerInfoResponse{Version: "v0", TunnelUrl: h.tunnel, Subject: "user:admin", Groups: []string{"leat:admins"}, UiUrl: "/ui/", WebhookUrl: "https://leat.example.com/webhooks"}, nil
}

// Healthy returns the status of a running service.
func Healthy() *fleetv1.ServiceStatus {
	status := &fleetv1.ServiceStatus{Phase: typev1.ServicePhase_SERVICE_PHASE_HEALTHY, Synced: true, ObservedGeneration: 1}
	status.Report = reportOf(status.GetPhase())
	return status
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

// SyncRepository implements FleetService. Fetching succeeds, unless the repository has a problem.
func (h *Hub) SyncRepository(_ context.Context, request *fleetv1.SyncRepositoryRequest) (*fleetv1.SyncRepositoryResponse, error) {
	object, err := h.get("repository", request.GetName())
	if err != nil {
		return nil, err
	}
	return &fleetv1.SyncRepositoryResponse{Problem: object.GetRepository().GetStatus().GetProblem()}, nil
}

// ListWebhookDeliveries implements FleetService. Two have arrived about each repository, of which one has a hostile ref.
func (h *Hub) ListWebhookDeliveries(
	_ context.Context, request *fleetv1.ListWebhookDeliveriesRequest,
) (*fleetv1.ListWebhookDeliveriesResponse, error) {
	if _, err := h.get("repository", request.GetName()); err != nil {
		return nil, err
	}
	return &fleetv1.ListWebhookDeliveriesResponse{Deliveries: []*gitcachev1.WebhookDelivery{
		{Provider: "github", Outcome: gitcachev1.WebhookOutcome_WEBHOOK_OUTCOME_ACCEPTED, Refs: []string{"refs/heads/main", "a\x1b[2Jb"}},
		{Provider: "github", Outcome: gitcachev1.WebhookOutcome_WEBHOOK_OUTCOME_WRONG_KEY},
	}}, nil
}

func reportOf(phase typev1.ServicePhase) *distributorv1.ServiceReport {
	return &distributorv1.ServiceReport{
		Phase: phase, AppliedCommits: []string{Commit}, Counts: &typev1.ObjectCounts{Total: 4, Healthy: 4},
	}
}
