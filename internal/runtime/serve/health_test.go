// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package serve_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"
	"connectrpc.com/grpcreflect"
	"github.com/google/go-cmp/cmp"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/reflect/protoreflect"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	"github.com/leatdev/leat/gen/go/leat/tunnel/v1/tunnelv1connect"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/internal/runtime/serve"
	"github.com/leatdev/leat/internal/runtime/telemetry"
	"github.com/leatdev/leat/internal/testkit/rpctest"
)

var errDown = errors.New("dial tcp 10.1.2.3: refused")

// togglable is a check that tests switch.
type togglable struct {
	down  atomic.Bool
	calls atomic.Int32
}

func (c *togglable) check(context.Context) error {
	c.calls.Add(1)
	if c.down.Load() {
		return errDown
	}
	return nil
}

func newMux(t *testing.T, health *serve.Health, log io.Writer) http.Handler {
	t.Helper()
	tel, err := telemetry.Start(t.Context(), telemetry.Config{LogOutput: log}, "test")
	if err != nil {
		t.Fatalf("start telemetry: %v", err)
	}
	return serve.NewInternal(serve.InternalParams{
		Health: health, Telemetry: tel, Services: []string{tunnelv1connect.TunnelServiceName},
	})
}

func TestReadiness(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		health, redis, log := serve.NewHealth(), new(togglable), new(buffer)
		health.Register("sql", func(context.Context) error { return nil })
		health.Register("redis", redis.check)
		server := rpctest.Start(newMux(t, health, log))
		defer func() { _ = server.Close() }()
		assert := func(when string, wantStatus int, wantBody string) {
			t.Helper()
			status, body := get(t, server.Client(), rpctest.BaseURL+"/readyz")
			if status != wantStatus || body != wantBody {
				t.Errorf("%s: got %d %q, want %d %q", when, status, body, wantStatus, wantBody)
			}
		}
		assert("up", http.StatusOK, "redis: ok\nsql: ok\n")
		redis.down.Store(true)
		assert("asked just now", http.StatusOK, "redis: ok\nsql: ok\n")
		if calls := redis.calls.Load(); calls != 1 {
			t.Errorf("got %d checks within a second, want 1", calls)
		}
		for range 2 {
			<-time.After(time.Second)
			assert("down", http.StatusServiceUnavailable, "redis: failed\nsql: ok\n")
		}
		if err := health.Ready(t.Context()); !errors.Is(err, errDown) || !strings.Contains(err.Error(), "redis") {
			t.Errorf("Ready: got %v, want the name and the cause", err)
		}
		redis.down.Store(false)
		<-time.After(time.Second)
		assert("up again", http.StatusOK, "redis: ok\nsql: ok\n")
		if got := log.String(); strings.Count(got, "readiness check fails") != 1 || !strings.Contains(got, "10.1.2.3") ||
			strings.Count(got, "passes again") != 1 {
			t.Errorf("got log %s, want one line for each change", got)
		}
		if status, _ := get(t, server.Client(), rpctest.BaseURL+"/healthz"); status != http.StatusOK {
			t.Errorf("healthz: got %d", status)
		}
	})
}

func TestACheckThatPanicsFails(t *testing.T) {
	t.Parallel()
	health := serve.NewHealth()
	health.Register("broken", func(context.Context) error { panic("out of range") })
	if err := health.Ready(t.Context()); err == nil || !strings.Contains(err.Error(), "broken: panic: out of range") {
		t.Errorf("got %v, want the check and its panic", err)
	}
}

func TestReadinessWithoutChecksIsOK(t *testing.T) {
	t.Parallel()
	url, client := rpctest.Serve(t, newMux(t, serve.NewHealth(), io.Discard))
	if status, body := get(t, client, url+"/readyz"); status != http.StatusOK || body != "ok\n" {
		t.Errorf("got %d %q, want 200 ok", status, body)
	}
}

func TestAHangingCheckFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		health := serve.NewHealth()
		health.Register("slow", func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		})
		began := time.Now()
		if err := health.Ready(t.Context()); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want it to fail", err)
		}
		if took := time.Since(began); took != 2*time.Second {
			t.Errorf("took %s, want 2s", took)
		}
	})
}

func TestMetricsAreServed(t *testing.T) {
	t.Parallel()
	url, client := rpctest.Serve(t, newMux(t, serve.NewHealth(), io.Discard))
	if status, body := get(t, client, url+"/metrics"); status != http.StatusOK || !strings.Contains(body, "go_goroutines") {
		t.Errorf("got %d and %d bytes, want the process's metrics", status, len(body))
	}
}

// healthClient calls grpc.health.v1 as a gRPC probe does.
func healthClient(client *http.Client, url, procedure string) *connect.Client[healthv1.HealthCheckRequest, healthv1.HealthCheckResponse] {
	return connect.NewClient[healthv1.HealthCheckRequest, healthv1.HealthCheckResponse](client, url+procedure, connect.WithGRPC())
}

func TestGRPCHealthCheck(t *testing.T) {
	t.Parallel()
	down := serve.NewHealth()
	down.Register("redis", func(context.Context) error { return errDown })
	for want, health := range map[healthv1.HealthCheckResponse_ServingStatus]*serve.Health{
		healthv1.HealthCheckResponse_SERVING: serve.NewHealth(), healthv1.HealthCheckResponse_NOT_SERVING: down,
	} {
		url, client := rpctest.Serve(t, newMux(t, health, io.Discard))
		probe := healthClient(client, url, healthv1.Health_Check_FullMethodName)
		for _, service := range []string{"", tunnelv1connect.TunnelServiceName, "grpc.health.v1.Health"} {
			got, err := probe.CallUnary(t.Context(), connect.NewRequest(&healthv1.HealthCheckRequest{Service: service}))
			if err != nil || got.Msg.GetStatus() != want {
				t.Errorf("%q: got %v, %v, want %s", service, got, err, want)
			}
		}
		_, err := probe.CallUnary(t.Context(), connect.NewRequest(&healthv1.HealthCheckRequest{Service: "unknown"}))
		if connect.CodeOf(err) != connect.CodeNotFound || rpcerr.ReasonOf(err) != errorsv1.Reason_REASON_NOT_FOUND {
			t.Errorf("unknown: got %v, want not found", err)
		}
	}
}

func TestGRPCHealthWatchTellsChanges(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		health, redis := serve.NewHealth(), new(togglable)
		health.Register("redis", redis.check)
		server := rpctest.Start(newMux(t, health, io.Discard))
		defer func() { _ = server.Close() }()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		stream, err := healthClient(server.Client(), rpctest.BaseURL, healthv1.Health_Watch_FullMethodName).
			CallServerStream(ctx, connect.NewRequest(&healthv1.HealthCheckRequest{}))
		if err != nil {
			t.Fatalf("watch: %v", err)
		}
		defer func() { _ = stream.Close() }()
		for _, want := range []healthv1.HealthCheckResponse_ServingStatus{
			healthv1.HealthCheckResponse_SERVING, healthv1.HealthCheckResponse_NOT_SERVING, healthv1.HealthCheckResponse_SERVING,
		} {
			if !stream.Receive() || stream.Msg().GetStatus() != want {
				t.Errorf("got %v, %v, want %s", stream.Msg(), stream.Err(), want)
			}
			redis.down.Store(!redis.down.Load())
		}
		cancel()
		if stream.Receive() {
			t.Error("after the caller left: got another status")
		}
	})
}

func TestDrainFailsReadinessAtOnce(t *testing.T) {
	t.Parallel()
	health := serve.NewHealth()
	mux := http.NewServeMux()
	mux.Handle("/", newMux(t, health, io.Discard))
	ready := make(chan error, 1)
	mux.HandleFunc("GET /stream", func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).Flush()
		<-serve.Draining(r.Context())
		ready <- health.Ready(r.Context())
		mux.ServeHTTP(w, probeRequest(r))
	})
	server := start(t, serve.Config{}, mux)
	watch, err := healthClient(server.client, "http://"+server.addr, healthv1.Health_Watch_FullMethodName).
		CallServerStream(t.Context(), connect.NewRequest(&healthv1.HealthCheckRequest{}))
	if err != nil || !watch.Receive() {
		t.Fatalf("watch: %v", err)
	}
	response := open(t, server.client, "http://"+server.addr+"/stream")
	server.stop()
	if err := <-ready; err == nil {
		t.Error("Ready while draining: got nil")
	}
	if body, _ := io.ReadAll(response.Body); string(body) != "shutting down\n" {
		t.Errorf("readyz while draining: got %q", body)
	}
	if !watch.Receive() || watch.Msg().GetStatus() != healthv1.HealthCheckResponse_NOT_SERVING {
		t.Errorf("watch while draining: got %v, %v, want NOT_SERVING", watch.Msg(), watch.Err())
	}
	if watch.Receive() || watch.Err() != nil {
		t.Errorf("watch afterwards: got %v, %v, want a clean end", watch.Msg(), watch.Err())
	}
	_ = watch.Close()
	if err := server.wait(); err != nil {
		t.Errorf("run: %v", err)
	}
}

// probeRequest asks /readyz within the same connection, as a kept-alive probe would.
func probeRequest(r *http.Request) *http.Request {
	probe := r.Clone(r.Context())
	probe.URL.Path = "/readyz"
	return probe
}

func TestReflectionListsServices(t *testing.T) {
	t.Parallel()
	url, client := rpctest.Serve(t, newMux(t, serve.NewHealth(), io.Discard))
	stream := grpcreflect.NewClient(client, url, connect.WithGRPC()).NewStream(t.Context())
	defer func() { _, _ = stream.Close() }()
	got, err := stream.ListServices()
	want := []protoreflect.FullName{"grpc.health.v1.Health", tunnelv1connect.TunnelServiceName}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("services (-want +got), %v:\n%s", err, diff)
	}
	files, err := stream.FileContainingSymbol(tunnelv1connect.TunnelServiceName)
	if err != nil || len(files) == 0 {
		t.Errorf("describe the service: got %d files, %v", len(files), err)
	}
}
