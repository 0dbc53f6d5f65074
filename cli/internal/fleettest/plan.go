// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fleettest

import (
	"context"
	"sync"

	"connectrpc.com/connect"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
)

// plans are the contents that the hub delivers.
type plans struct {
	mu       sync.Mutex
	services map[string]*fleetv1.GetServicePlanResponse
	bundles  map[string][]byte // the sent bytes by digest
}

// PutPlan stores what the hub delivers for a service, and the bytes that it sends for a digest.
func (h *Hub) PutPlan(planned *fleetv1.GetServicePlanResponse, bundles map[string][]byte) {
	h.plans.mu.Lock()
	defer h.plans.mu.Unlock()
	h.plans.services[planned.GetService().GetName()] = planned
	for digest, content := range bundles {
		h.plans.bundles[digest] = content
	}
}

// GetServicePlan implements FleetService.
func (h *Hub) GetServicePlan(_ context.Context, request *fleetv1.GetServicePlanRequest) (*fleetv1.GetServicePlanResponse, error) {
	h.plans.mu.Lock()
	defer h.plans.mu.Unlock()
	planned, ok := h.plans.services[request.GetName()]
	if !ok {
		return nil, rpcerr.NotFound("service", request.GetName())
	}
	return planned, nil
}

// DownloadServiceBundle implements FleetService. It sends a few bytes at a time.
func (h *Hub) DownloadServiceBundle(
	_ context.Context, request *fleetv1.DownloadServiceBundleRequest, stream *connect.ServerStream[fleetv1.DownloadServiceBundleResponse],
) error {
	h.plans.mu.Lock()
	content, ok := h.plans.bundles[request.GetDigest()]
	h.plans.mu.Unlock()
	if !ok {
		return rpcerr.New(connect.CodeNotFound, errorsv1.Reason_REASON_BUNDLE_NOT_FOUND, "no such bundle")
	}
	for len(content) > 0 {
		n := min(len(content), 100)
		if err := stream.Send(&fleetv1.DownloadServiceBundleResponse{Chunk: content[:n]}); err != nil {
			return err
		}
		content = content[n:]
	}
	return nil
}
