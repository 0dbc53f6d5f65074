// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"net/http"
	"slices"
	"time"

	"connectrpc.com/connect"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/leatdev/leat/internal/runtime/rpcerr"
)

// healthWatchInterval is how often a watcher's status is checked again; a drain is told at once.
const healthWatchInterval = 5 * time.Second

// grpcHealth answers grpc.health.v1 from the same checks as /readyz. The whole server is one: every
// service of it has the same status, and the empty name stands for the server.
type grpcHealth struct {
	health   *Health
	services []string
}

// healthHandlers returns the handlers by path. There is no generated Connect code for this service,
// so the procedures are put together by hand.
func healthHandlers(health *Health, services []string) map[string]http.Handler {
	h := &grpcHealth{health: health, services: append([]string{"", healthv1.Health_ServiceDesc.ServiceName}, services...)}
	return map[string]http.Handler{
		healthv1.Health_Check_FullMethodName: connect.NewUnaryHandlerSimple(
			healthv1.Health_Check_FullMethodName, h.check, connect.WithIdempotency(connect.IdempotencyNoSideEffects), probeOptions()),
		healthv1.Health_Watch_FullMethodName: connect.NewServerStreamHandlerSimple(
			healthv1.Health_Watch_FullMethodName, h.watch, probeOptions()),
	}
}

func (h *grpcHealth) check(ctx context.Context, request *healthv1.HealthCheckRequest) (*healthv1.HealthCheckResponse, error) {
	status := h.status(ctx, request.GetService())
	if status == healthv1.HealthCheckResponse_SERVICE_UNKNOWN {
		return nil, rpcerr.NotFound("service", request.GetService())
	}
	return &healthv1.HealthCheckResponse{Status: status}, nil
}

// watch sends the status now and whenever it changes, until the caller leaves or the server stops.
func (h *grpcHealth) watch(
	ctx context.Context, request *healthv1.HealthCheckRequest, stream *connect.ServerStream[healthv1.HealthCheckResponse],
) error {
	ticker := time.NewTicker(healthWatchInterval)
	defer ticker.Stop()
	sent := healthv1.HealthCheckResponse_UNKNOWN
	for {
		draining := isDraining(ctx) // before the status, which reports it then
		if status := h.status(ctx, request.GetService()); status != sent {
			if err := stream.Send(&healthv1.HealthCheckResponse{Status: status}); err != nil {
				return err
			}
			sent = status
		}
		if draining {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-Draining(ctx):
		case <-ticker.C:
		}
	}
}

func (h *grpcHealth) status(ctx context.Context, service string) healthv1.HealthCheckResponse_ServingStatus {
	switch {
	case !slices.Contains(h.services, service):
		return healthv1.HealthCheckResponse_SERVICE_UNKNOWN
	case h.health.Ready(ctx) != nil:
		return healthv1.HealthCheckResponse_NOT_SERVING
	}
	return healthv1.HealthCheckResponse_SERVING
}
