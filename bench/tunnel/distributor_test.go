// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package tunnel_test

import (
	"context"
	"crypto/ed25519"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	"github.com/leatdev/leat/gen/go/leat/distributor/v1/distributorv1connect"
	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/internal/testkit/hubkeys"
)

const (
	// tokenLife is longer than any benchmark.
	tokenLife = 12 * time.Hour
	// decisionLife is how long the hub may cache a decision, as a distributor sets it.
	decisionLife = 30 * time.Second
	heartbeat    = 20 * time.Second
)

// distributor is the double in the benchmark's process: it issues tokens, permits everybody to
// reach every cluster, and has an empty plan for each agent. Requests to clusters do not pass
// through it.
type distributor struct {
	distributorv1connect.UnimplementedDistributorServiceHandler

	issuer *identity.Issuer
	url    string

	mu        sync.Mutex
	tunnelURL string                       // address of the tunnel for agents
	keys      map[string]ed25519.PublicKey // of agents, by cluster
}

func startDistributor(b *testing.B) *distributor {
	b.Helper()
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		b.Fatal(err)
	}
	services := hubkeys.Verifier(identity.ServiceDistributor, identity.ServiceTunnel)
	d := &distributor{issuer: identity.NewIssuer(key), keys: map[string]ed25519.PublicKey{}}
	mux := http.NewServeMux()
	mux.HandleFunc("/.well-known/jwks.json", func(w http.ResponseWriter, _ *http.Request) {
		keys, err := d.issuer.JWKS()
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		_, _ = w.Write(keys)
	})
	path, access := distributorv1connect.NewAccessServiceHandler(everybody{})
	mux.Handle(path, identity.Authenticate(services, access))
	mux.Handle(distributorv1connect.NewDistributorServiceHandler(d))
	server := httptest.NewUnstartedServer(mux)
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetHTTP1(true)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	d.url = server.URL
	b.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return d
}

// everybody permits every request.
type everybody struct{}

// CheckAccess implements distributorv1connect.AccessServiceHandler.
func (everybody) CheckAccess(_ context.Context, request *distributorv1.CheckAccessRequest) (*distributorv1.CheckAccessResponse, error) {
	return &distributorv1.CheckAccessResponse{
		Allowed: true, User: request.GetSubject(), Groups: []string{"leat:admins"},
		MaxAge: durationpb.New(decisionLife), ClusterUid: uidOf(request.GetCluster()),
	}, nil
}

func uidOf(cluster string) string { return "uid-" + cluster }

// joinToken is the prefix of all join tokens; the cluster's name follows.
const joinToken = "join-as-"

// sendTo sets the tunnel's address for agents.
func (d *distributor) sendTo(url string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.tunnelURL = url
}

// Enroll implements distributorv1connect.DistributorServiceHandler.
func (d *distributor) Enroll(_ context.Context, request *distributorv1.EnrollRequest) (*distributorv1.EnrollResponse, error) {
	cluster := strings.TrimPrefix(request.GetJoinToken(), joinToken)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.keys[cluster] = request.GetPublicKey()
	return &distributorv1.EnrollResponse{Cluster: cluster, ClusterUid: uidOf(cluster), TunnelUrl: d.tunnelURL}, nil
}

// RefreshToken implements distributorv1connect.DistributorServiceHandler.
func (d *distributor) RefreshToken(
	ctx context.Context, request *distributorv1.RefreshTokenRequest,
) (*distributorv1.RefreshTokenResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	cluster, _, err := identity.VerifyAssertion(ctx, request.GetAssertion(),
		func(_ context.Context, cluster string) (ed25519.PublicKey, error) { return d.keys[cluster], nil })
	if err != nil {
		return nil, err
	}
	token, expires, err := d.issuer.Issue(clusterIdentity(cluster), identity.ServiceTunnel, tokenLife)
	if err != nil {
		return nil, err
	}
	return &distributorv1.RefreshTokenResponse{AccessToken: token, ExpireTime: timestamppb.New(expires), TunnelUrl: d.tunnelURL}, nil
}

// WatchPlan sends an empty plan, and heartbeats.
func (d *distributor) WatchPlan(
	ctx context.Context, _ *distributorv1.WatchPlanRequest, stream *connect.ServerStream[distributorv1.WatchPlanResponse],
) error {
	next := &distributorv1.WatchPlanResponse{Event: &distributorv1.WatchPlanResponse_Plan{Plan: &distributorv1.Plan{Version: "v0"}}}
	for ctx.Err() == nil {
		if err := stream.Send(next); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(heartbeat):
		}
		next = &distributorv1.WatchPlanResponse{Event: &distributorv1.WatchPlanResponse_Heartbeat{Heartbeat: &distributorv1.Heartbeat{}}}
	}
	return nil
}

// ReportStatus accepts reports.
func (d *distributor) ReportStatus(context.Context, *distributorv1.ReportStatusRequest) (*distributorv1.ReportStatusResponse, error) {
	return &distributorv1.ReportStatusResponse{}, nil
}

func clusterIdentity(name string) identity.Identity {
	return identity.Identity{Kind: identity.KindCluster, Name: name, UID: uidOf(name)}
}

// user returns a person's token.
func (d *distributor) user(b *testing.B, name string) string {
	b.Helper()
	return d.token(b, identity.Identity{Kind: identity.KindUser, Name: name, UID: "uid-" + name, Groups: []string{"leat:admins"}})
}

func (d *distributor) token(b *testing.B, id identity.Identity) string {
	b.Helper()
	token, _, err := d.issuer.Issue(id, identity.ServiceTunnel, tokenLife)
	if err != nil {
		b.Fatal(err)
	}
	return token
}
