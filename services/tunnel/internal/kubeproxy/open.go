// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kubeproxy

import (
	"context"
	"net/http"

	"github.com/leatdev/leat/services/tunnel/internal/fanin"
	"github.com/leatdev/leat/services/tunnel/internal/relay"
	"github.com/leatdev/leat/services/tunnel/internal/session"
)

// stream is the right to send one request to a cluster: of its own, or in a watch that is shared.
type stream = fanin.Upstream

// open obtains the right to send the request.
func (h *Handler) open(r *request) (stream, error) {
	if h.deps.FanIn != nil && r.in.Method == http.MethodGet && r.target.isResourceWatch() {
		return h.openShared(r)
	}
	return h.openStream(r.in.Context(), r, r.subject)
}

// openStream obtains a stream for one request. An empty user is not charged to a limit.
func (h *Handler) openStream(ctx context.Context, r *request, user string) (stream, error) {
	s, err := h.deps.Router.Open(ctx, relay.Target{
		Target:  session.Target{Cluster: r.target.cluster, ClusterUID: r.decision.ClusterUID, User: user},
		Endless: r.target.isEndless(), Watch: r.target.isWatch(),
	})
	if err != nil {
		return nil, err // and not the nil pointer, which would look like a stream
	}
	return s, nil
}

// openShared opens a watch that several viewers may share. The person is charged for it as for a
// watch of their own, until the watch has ended or other viewers share it. The cluster is charged
// once for all of them.
func (h *Handler) openShared(r *request) (stream, error) {
	release, err := h.deps.Router.Charge(r.subject)
	if err != nil {
		return nil, err
	}
	return h.deps.FanIn.Watch(r.clusterKey(), func(ctx context.Context) (stream, error) {
		return h.openStream(ctx, r, "")
	}, release), nil
}
