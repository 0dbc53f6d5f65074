// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package bench measures Leat beside its peers and its physical limits. RESULTS.md holds the
// results, with the command and the machine of each figure. CI runs no timing.
package bench_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"
	"golang.org/x/sync/errgroup"

	"github.com/leatdev/leat/bench/internal/edge"
	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	"github.com/leatdev/leat/gen/go/leat/distributor/v1/distributorv1connect"
)

const (
	servicesPerPlan = 20
	// callers is how many call at once.
	callers = 16
	// steadyRate is the number of calls per second that are made in any case.
	steadyRate = 2000
)

// BenchmarkGetPlanUnchanged asks a distributor for a plan that did not change, through a generated
// client with a token that is verified each time, over each protocol that agents may use. The limit
// beside each is a bare net/http handler with a small answer, over the same version of HTTP. Both
// are separate processes: req/core-s is how many requests one core of the server would answer in a
// second, whatever the clients cost.
func BenchmarkGetPlanUnchanged(b *testing.B) {
	hub, bare := startDistributor(b), startBare(b)
	for _, way := range []struct {
		name    string
		client  *http.Client
		options []connect.ClientOption
	}{
		{name: "connect,http2", client: overHTTP2()},
		{name: "connect,http1", client: overHTTP1()},
		{name: "grpc,http2", client: overHTTP2(), options: []connect.ClientOption{connect.WithGRPC()}},
	} {
		b.Run(way.name+"/leat", func(b *testing.B) {
			hub.measure(b, askPlan(b, hub, way.client, way.options...))
		})
		b.Run(way.name+"/peer=bare-handler", func(b *testing.B) {
			bare.measure(b, askBare(bare.url, way.client))
		})
	}
}

// BenchmarkGetPlanSteady makes 2 000 requests a second, however fast the answers arrive, and
// measures each from when it was due.
func BenchmarkGetPlanSteady(b *testing.B) {
	hub, bare := startDistributor(b), startBare(b)
	client := overHTTP2()
	b.Run("leat", func(b *testing.B) { hub.measureSteady(b, askPlan(b, hub, client)) })
	b.Run("peer=bare-handler", func(b *testing.B) { bare.measureSteady(b, askBare(bare.url, client)) })
}

func overHTTP2() *http.Client {
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	return &http.Client{Transport: transport}
}

func overHTTP1() *http.Client {
	return &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 2 * callers}}
}

// askPlan returns a call that fails unless the plan is unchanged.
func askPlan(b *testing.B, hub *server, through *http.Client, options ...connect.ClientOption) func(context.Context) error {
	b.Helper()
	token := connect.WithInterceptors(connect.UnaryInterceptorFunc(func(next connect.UnaryFunc) connect.UnaryFunc {
		return func(ctx context.Context, request connect.AnyRequest) (connect.AnyResponse, error) {
			request.Header().Set("Authorization", "Bearer "+hub.token)
			return next(ctx, request)
		}
	}))
	client := distributorv1connect.NewDistributorServiceClient(through, hub.url, append(options, token)...)
	first, err := client.GetPlan(b.Context(), &distributorv1.GetPlanRequest{})
	if err != nil {
		b.Fatal(err)
	}
	if got := len(first.GetPlan().GetServices()); got != servicesPerPlan {
		b.Fatalf("services in the plan: got %d, want %d", got, servicesPerPlan)
	}
	request := &distributorv1.GetPlanRequest{KnownVersion: first.GetPlan().GetVersion()}
	return func(ctx context.Context) error {
		answer, err := client.GetPlan(ctx, request)
		if err == nil && !answer.GetUnchanged() {
			return errors.New("the plan changed")
		}
		return err
	}
}

// askBare returns a call of the bare handler with a body of about the size of a plan request.
func askBare(url string, through *http.Client) func(context.Context) error {
	body := strings.Repeat("x", 80)
	return func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
		if err != nil {
			return err
		}
		response, err := through.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		_, err = io.Copy(io.Discard, response.Body)
		return err
	}
}

// measure runs several callers as fast as they can.
func (p *server) measure(b *testing.B, call func(context.Context) error) {
	b.Helper()
	var left atomic.Int64
	left.Store(int64(b.N))
	spent := p.CPU(b)
	each := make([][]time.Duration, callers)
	var group errgroup.Group
	for i := range callers {
		group.Go(func() error {
			for left.Add(-1) >= 0 {
				begun := time.Now()
				if err := call(b.Context()); err != nil {
					return err
				}
				each[i] = append(each[i], time.Since(begun))
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		b.Fatal(err)
	}
	p.report(b, slices.Concat(each...), p.CPU(b)-spent)
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "req/s")
}

// measureSteady begins each call when it is due.
func (p *server) measureSteady(b *testing.B, call func(context.Context) error) {
	b.Helper()
	took := make([]time.Duration, b.N)
	spent, begun := p.CPU(b), time.Now()
	var group errgroup.Group
	for i := range took {
		due := begun.Add(time.Duration(i) * time.Second / steadyRate)
		<-time.After(time.Until(due))
		group.Go(func() error {
			err := call(b.Context())
			took[i] = time.Since(due)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		b.Fatal(err)
	}
	p.report(b, took, p.CPU(b)-spent)
}

// report reports how many requests a server's core would answer in a second, and how long callers
// wait.
func (p *server) report(b *testing.B, took []time.Duration, spent time.Duration) {
	b.Helper()
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
	if spent > 0 { // zero in the first, short rounds
		b.ReportMetric(float64(len(took))/spent.Seconds(), "req/core-s")
	}
}

// startDistributor runs a distributor with one cluster, and keeps its agent's token.
func startDistributor(b *testing.B) *server {
	b.Helper()
	hub := startService(b, "distributor",
		"LEAT_DISTRIBUTOR_DATA_DIR="+b.TempDir(),
		"LEAT_DISTRIBUTOR_ADMIN_TOKEN="+edge.AdminToken,
		"LEAT_GITCACHE_URL=http://127.0.0.1:1", // has no listener: an unchanged plan needs no gitcache
		"LEAT_LOG_LEVEL=error",
	)
	hub.token = enrol(b, hub.url)
	return hub
}

// connectAs returns a client with a token.

// enrol returns an access token of an agent whose plan has the usual number of services.
func enrol(b *testing.B, url string) string {
	b.Helper()
	folders := make([]string, servicesPerPlan)
	for i := range folders {
		folders[i] = fmt.Sprintf("app-%02d", i)
	}
	return edge.Enrol(b, url, folders)
}
