// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package agenttest

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"

	tunnelv1 "github.com/leatdev/leat/gen/go/leat/tunnel/v1"
	"github.com/leatdev/leat/gen/go/leat/tunnel/v1/tunnelv1connect"
)

// link answers the hub's LinkService calls.
type link struct {
	opts       Options
	attached   atomic.Pointer[tunnelv1.AttachRequest]
	heartbeats atomic.Int64
}

// before lets the link answer its own requests, and next the rest.
func (l *link) before(next http.Handler) http.Handler {
	path, handler := tunnelv1connect.NewLinkServiceHandler(l)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case !strings.HasPrefix(r.RequestURI, path):
			next.ServeHTTP(w, r)
		case l.opts.OldAgent:
			http.NotFound(w, r)
		default:
			handler.ServeHTTP(w, r)
		}
	})
}

// Attach implements LinkService.
func (l *link) Attach(_ context.Context, req *tunnelv1.AttachRequest) (*tunnelv1.AttachResponse, error) {
	l.attached.Store(req)
	if l.opts.OnAttach != nil {
		l.opts.OnAttach()
	}
	return &tunnelv1.AttachResponse{}, nil
}

// Heartbeat implements LinkService.
func (l *link) Heartbeat(_ context.Context, req *tunnelv1.HeartbeatRequest) (*tunnelv1.HeartbeatResponse, error) {
	l.heartbeats.Add(1)
	if l.opts.OnHeartbeat != nil {
		l.opts.OnHeartbeat()
	}
	if drain := req.GetDrain(); drain != nil && l.opts.OnDrain != nil {
		l.opts.OnDrain(drain.GetReconnectAfter().AsDuration())
	}
	res := &tunnelv1.HeartbeatResponse{}
	if req.GetWantToken() && l.opts.Renew != nil {
		res.AccessToken = l.opts.Renew()
	}
	return res, nil
}
