// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package bench measures Leat beside its peers and its physical limits. RESULTS.md holds what was found, with the command
// and the machine of each figure. Nothing here is timed in CI.
package bench_test

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	"github.com/leatdev/leat/gen/go/leat/distributor/v1/distributorv1connect"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/gen/go/leat/fleet/v1/fleetv1connect"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/config"
	"github.com/leatdev/leat/internal/identity"
	"github.com/leatdev/leat/internal/rpc"
	"github.com/leatdev/leat/internal/telemetry"
	"github.com/leatdev/leat/services/distributor"
)

const (
	adminToken       = "leat_0123456789abcdef0123456789abcdef0123456789abcdef"
	servicesPerPlan  = 20
	unchangedMessage = 200 // bytes of the bare handler's answer
)

// BenchmarkGetPlanUnchanged asks a distributor for a plan that did not change, through a generated client over HTTP/2, with a
// token that is verified each time. The limit beside it is a bare net/http handler with a small answer, asked the same way.
func BenchmarkGetPlanUnchanged(b *testing.B) {
	hub := startDistributor(b)
	client := distributorv1connect.NewDistributorServiceClient(hub.HTTP, hub.BaseURL, hub.Options...)
	first, err := client.GetPlan(b.Context(), &distributorv1.GetPlanRequest{})
	if err != nil {
		b.Fatal(err)
	}
	if got := len(first.GetPlan().GetServices()); got != servicesPerPlan {
		b.Fatalf("services in the plan: got %d, want %d", got, servicesPerPlan)
	}
	request := &distributorv1.GetPlanRequest{KnownVersion: first.GetPlan().GetVersion()}

	b.Run("leat", func(b *testing.B) {
		measure(b, func(ctx context.Context) error {
			answer, err := client.GetPlan(ctx, request)
			if err == nil && !answer.GetUnchanged() {
				return fmt.Errorf("the plan changed")
			}
			return err
		})
	})
	b.Run("limit=bare-handler", func(b *testing.B) {
		body := strings.Repeat("x", unchangedMessage)
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			_, _ = io.WriteString(w, body)
		}))
		server.Config.Protocols = new(http.Protocols)
		server.Config.Protocols.SetUnencryptedHTTP2(true)
		server.Start()
		defer server.Close()
		measure(b, func(ctx context.Context) error {
			request, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL, strings.NewReader(body))
			if err != nil {
				return err
			}
			response, err := hub.HTTP.Do(request)
			if err != nil {
				return err
			}
			defer response.Body.Close()
			_, err = io.Copy(io.Discard, response.Body)
			return err
		})
	})
}

// measure runs calls from several goroutines and reports the 99th percentile beside the mean.
func measure(b *testing.B, call func(context.Context) error) {
	b.Helper()
	var mu sync.Mutex
	var all []time.Duration
	b.RunParallel(func(pb *testing.PB) {
		var own []time.Duration
		for pb.Next() {
			begun := time.Now()
			if err := call(b.Context()); err != nil {
				b.Error(err)
				return
			}
			own = append(own, time.Since(begun))
		}
		mu.Lock()
		defer mu.Unlock()
		all = append(all, own...)
	})
	slices.Sort(all)
	if len(all) > 0 {
		b.ReportMetric(float64(all[len(all)*99/100].Microseconds()), "p99-µs")
		b.ReportMetric(float64(len(all))/b.Elapsed().Seconds(), "req/s")
	}
}

// startDistributor runs a distributor with one cluster, and returns a client that speaks as the cluster's agent.
func startDistributor(b *testing.B) rpc.Client {
	b.Helper()
	listener, err := (&net.ListenConfig{}).Listen(b.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	dir := b.TempDir()
	environment := map[string]string{
		"LEAT_DISTRIBUTOR_DATABASE_URL": "sqlite://" + filepath.Join(dir, "leat.db"),
		"LEAT_DISTRIBUTOR_DATA_DIR":     dir,
		"LEAT_DISTRIBUTOR_ADMIN_TOKEN":  adminToken,
		"LEAT_GITCACHE_URL":             "http://127.0.0.1:1", // nothing listens: what did not change needs no gitcache
		"LEAT_SERVICE_SECRET":           "a-secret-of-this-benchmark-and-of-nothing-else",
		"LEAT_LOG_LEVEL":                "error",
	}
	cfg := distributor.Config{}
	set := config.New("distributor", func(name string) (string, bool) { v, ok := environment[name]; return v, ok })
	cfg.Bind(set)
	if err := set.Parse(nil); err != nil {
		b.Fatal(err)
	}
	cfg.Serve.Listener = listener
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- distributor.Run(ctx, cfg) }()
	b.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			b.Errorf("distributor: %v", err)
		}
	})
	url := "http://" + listener.Addr().String()
	return connectAs(b, url, enrol(b, url))
}

// connectAs makes a client with a token.
func connectAs(b *testing.B, url, token string) rpc.Client {
	b.Helper()
	client, err := rpc.NewClient(rpc.ClientParams{BaseURL: url, Tokens: identity.StaticToken(token), Telemetry: telemetry.Noop()})
	if err != nil {
		b.Fatal(err)
	}
	return client
}

// enrol fills the catalog and returns an access token of the cluster's agent.
func enrol(b *testing.B, url string) string {
	b.Helper()
	admin := connectAs(b, url, adminToken)
	fleet := fleetv1connect.NewFleetServiceClient(admin.HTTP, admin.BaseURL, admin.Options...)
	documents := []*fleetv1.Document{
		{Object: &fleetv1.Document_Cluster{Cluster: &fleetv1.Cluster{Metadata: &typev1.Metadata{Name: "edge"}}}},
		{Object: &fleetv1.Document_Repository{Repository: &fleetv1.Repository{
			Metadata: &typev1.Metadata{Name: "apps"}, Spec: &fleetv1.RepositorySpec{Url: "https://git.example/apps.git"},
		}}},
	}
	for i := range servicesPerPlan {
		documents = append(documents, &fleetv1.Document{Object: &fleetv1.Document_Service{Service: &fleetv1.Service{
			Metadata: &typev1.Metadata{Name: fmt.Sprintf("app-%02d", i)},
			Spec:     &fleetv1.ServiceSpec{Cluster: "edge", Sources: []*typev1.Source{{Repository: "apps", Path: fmt.Sprintf("app-%02d", i)}}},
		}}})
	}
	if _, err := fleet.Apply(b.Context(), &fleetv1.ApplyRequest{Documents: documents}); err != nil {
		b.Fatal(err)
	}
	joined, err := fleet.CreateJoinToken(b.Context(), &fleetv1.CreateJoinTokenRequest{Cluster: "edge"})
	if err != nil {
		b.Fatal(err)
	}
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		b.Fatal(err)
	}
	agent := distributorv1connect.NewDistributorServiceClient(admin.HTTP, admin.BaseURL)
	if _, err := agent.Enroll(b.Context(), &distributorv1.EnrollRequest{JoinToken: joined.GetJoinToken(), PublicKey: public}); err != nil {
		b.Fatal(err)
	}
	assertion, err := identity.SignAssertion(private, "edge")
	if err != nil {
		b.Fatal(err)
	}
	token, err := agent.RefreshToken(b.Context(), &distributorv1.RefreshTokenRequest{Assertion: assertion})
	if err != nil {
		b.Fatal(err)
	}
	return token.GetAccessToken()
}
